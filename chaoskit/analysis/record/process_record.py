"""`ProcessRecord`: the content of one file of a record; `RecordFiles`: reads the files of a run that have changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaoskit.analysis.record.column import Packing
from chaoskit.analysis.record.rank_lifetime import RankLifetime, fill
from chaoskit.analysis.record.step_lines import Entry, read_record
from chaoskit.protocol.events import Event, RecordGap


@dataclass(frozen=True)
class ProcessRecord:
    """The content of the file of one process. For a rank: its `lifetime`, in which `launch` and `restart`, and its
    `world` size. For the harness: the `events`."""

    gaps: tuple[RecordGap, ...] = ()
    events: tuple[Event, ...] = ()
    lifetime: RankLifetime | None = None
    launch: int = 0
    restart: int = 0
    world: int = 0

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> ProcessRecord:
        """Build it from the entries of one source."""
        gaps = tuple(entry for entry in entries if isinstance(entry, RecordGap))
        told = [entry for entry in entries if not isinstance(entry, RecordGap)]
        start = told[0] if told else None
        if not isinstance(start, Event) or start.kind != "process.start":
            return cls(gaps, tuple(entry for entry in told if isinstance(entry, Event)))
        if start.get("role") != "rank":
            return cls(gaps)
        node, ticks = str(start.get("node", "")), int(start.get("start", 0))
        lifetime = RankLifetime(int(start["rank"]), int(start["pid"]), start.t, node=node, ticks=ticks)
        fill(lifetime, told[1:])
        launch, restart, world = (int(start[name]) for name in ("launch", "restart", "world"))
        return cls(gaps, (), lifetime, launch, restart, world)

    def copy(self) -> ProcessRecord:
        """A copy whose steps and streams can be changed: a history renames some of them."""
        if self.lifetime is None:
            return self
        steps = self.lifetime.steps
        own = replace(steps, columns=dict(steps.columns), parts=dict(steps.parts))
        return replace(self, lifetime=replace(self.lifetime, steps=own))


def one_by_one(paths: Iterable[Path]) -> Iterator[ProcessRecord]:
    """Read each of these files."""
    for path in paths:
        yield ProcessRecord.of(read_record(path))


@dataclass
class RecordFiles:
    """Reads the files of a run's record, `several` at a time. If it `keeps` them, it reads a file again only if the
    file has changed: the record before a window never changes."""

    keeps: bool = False
    several: Callable[[Sequence[Path]], Iterator[ProcessRecord]] = one_by_one
    _known: dict[Path, tuple[tuple[int, ...], ProcessRecord]] = field(default_factory=dict, init=False)

    def read(self, paths: Sequence[Path]) -> Iterator[ProcessRecord]:
        """Read each of these files, in order."""
        if not self.keeps:
            yield from self.several(paths)
            return
        about = {path: _about(path) for path in paths}
        known = {path: self._known[path][1] for path in paths if about[path] == self._known.get(path, ((),))[0]}
        read = self.several([path for path in paths if path not in known])
        for path in paths:
            record = known.get(path) or next(read)
            if record.lifetime is not None and about[path]:
                record.lifetime.steps.pack(Packing())
                self._known[path] = about[path], record
            yield record.copy()


def _about(path: Path) -> tuple[int, ...]:
    """Properties of a file that change with its content; empty if there is no such file."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
