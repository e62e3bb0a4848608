"""`ProcessRecord`: what one file of a record tells; `RecordFiles`: reads those files of a run that changed since."""

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
    """What the file of one process tells: of a rank its `lifetime`, in which `launch` and `restart`, and its `world`
    size; of the harness the `events`."""

    gaps: tuple[RecordGap, ...] = ()
    events: tuple[Event, ...] = ()
    lifetime: RankLifetime | None = None
    launch: int = 0
    restart: int = 0
    world: int = 0

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> ProcessRecord:
        """What these entries of one source tell."""
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
        """The same, whose steps and streams can be changed: a history gives some of them other names."""
        if self.lifetime is None:
            return self
        steps = self.lifetime.steps
        own = replace(steps, columns=dict(steps.columns), parts=dict(steps.parts))
        return replace(self, lifetime=replace(self.lifetime, steps=own))


def one_by_one(paths: Iterable[Path]) -> Iterator[ProcessRecord]:
    """What each of these files tells."""
    for path in paths:
        yield ProcessRecord.of(read_record(path))


@dataclass
class RecordFiles:
    """Reads the files of a run's record, `several` at a time. Those that it `keeps` it reads again only where they have
    changed: the record before a window never does."""

    keeps: bool = False
    several: Callable[[Sequence[Path]], Iterator[ProcessRecord]] = one_by_one
    _known: dict[Path, tuple[tuple[int, ...], ProcessRecord]] = field(default_factory=dict, init=False)

    def read(self, paths: Sequence[Path]) -> Iterator[ProcessRecord]:
        """What each of these files tells, in order."""
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
    """What of a file changes with its content; empty where there is no such file."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
