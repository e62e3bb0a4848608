"""`ControlGroup`: one control group of a run, in every hierarchy that has a controller of ours."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaoskit.environments.cgroups.hierarchy import Hierarchy

#: Seconds in which the processes of a group that have been killed must have left it.
_LEAVE_LIMIT = 5.0


@dataclass(frozen=True)
class ControlGroup:
    """`places`: by hierarchy, the directory of the group."""

    places: Mapping[Hierarchy, Path]

    def make(self) -> ControlGroup:
        """Make its directories, if they are not there. Raises OSError."""
        for place in self.places.values():
            place.mkdir(exist_ok=True)
        return self

    def child(self, name: str) -> ControlGroup:
        """Make a group below it. Raises OSError."""
        for hierarchy, place in self.places.items():
            hierarchy.prepare(place)
        return ControlGroup({hierarchy: place / name for hierarchy, place in self.places.items()}).make()

    def children(self, controller: str) -> list[Path]:
        """The directories of the groups below it, in the hierarchy of that controller."""
        return sorted(path for path in self.place(controller).iterdir() if path.is_dir())

    def directories(self) -> tuple[str, ...]:
        """Its directory in each hierarchy; a process of the group joins all of them."""
        return tuple(map(str, self.places.values()))

    def place(self, controller: str) -> Path:
        """Its directory in the hierarchy of that controller."""
        return next(place for hierarchy, place in self.places.items() if controller in hierarchy.controllers)

    def version(self, controller: str) -> int:
        """The version of that hierarchy."""
        return next(hierarchy.version for hierarchy in self.places if controller in hierarchy.controllers)

    def processes(self) -> set[int]:
        """The pids of the processes in it and in the groups below."""
        return {pid for place in self.places.values() for each in _below(place) for pid in _pids(each)}

    def add(self, pids: Iterable[int]) -> None:
        """Move processes, with all their threads, into it. One that has ended is left out. Raises OSError."""
        for pid in pids:
            for place in self.places.values():
                with suppress(ProcessLookupError):
                    (place / "cgroup.procs").write_text(str(pid))


def remove(place: Path) -> bool:
    """Remove the directory of a group with those below it, once no process is in them; whether it is gone."""
    deadline = time.monotonic() + _LEAVE_LIMIT
    while place.is_dir():
        for each in sorted(_below(place), key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):  # a process in it is about to end
                each.rmdir()
        if place.is_dir():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
    return True


def _below(place: Path) -> Iterator[Path]:
    yield place
    with suppress(OSError):
        for path in place.iterdir():
            if path.is_dir():
                yield from _below(path)


def _pids(place: Path) -> list[int]:
    try:
        return [int(pid) for pid in (place / "cgroup.procs").read_text().split()]
    except OSError:
        return []
