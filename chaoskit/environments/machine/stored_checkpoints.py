"""Which files under `{out}` belong to which save, found from the record and from times, for any layout.

A job may write to a temporary name and rename it, and may write files that the probe does not see. But a file keeps
its modification time: it belongs to the save during which it was written. A save lasts from its begin until every
rank has begun its next step.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chaoskit.analysis.record.history import History, Incarnation, lifetimes
from chaoskit.analysis.record.rank_lifetime import RankLifetime, Save
from chaoskit.capabilities import StoredCheckpoint
from chaoskit.environments.machine.copied_files import copied_files

#: By how many seconds the time of a file may lie outside: the clock of a file system is coarse.
SLACK = 0.05


@dataclass(frozen=True)
class MadeSave:
    """All that one incarnation wrote after `n` steps."""

    incarnation: Incarnation
    n: int
    calls: tuple[tuple[RankLifetime, Save], ...]

    @cached_property
    def begun(self) -> float:
        return min(call.begun for _, call in self.calls)

    @cached_property
    def until(self) -> float:
        """When every rank had gone on; infinity where one never did."""
        ended = max(call.ended if call.ended is not None else float("inf") for _, call in self.calls)
        times = []
        for life in self.incarnation.ranks.values():
            following = life.steps.times[max(life.steps.past(self.n), life.steps.before(ended)) :]
            gone = life.end if life.end is not None else float("inf")
            times.append(following[0] if following else max(gone, ended))
        return max(times)

    @property
    def full(self) -> bool:
        """Whether it is more than an export of weights alone."""
        return any(call.full for _, call in self.calls)

    @cached_property
    def paths(self) -> frozenset[str]:
        return frozenset(os.path.realpath(call.path) for _, call in self.calls)

    @property
    def whole(self) -> bool:
        """Whether it ended well on every rank that saves: after as many calls as it makes elsewhere, or the rank had
        gone on."""
        return all(self._whole(life) for life in self.incarnation.ranks.values())

    def _whole(self, life: RankLifetime) -> bool:
        own = [call for saver, call in self.calls if saver is life]
        # What failed and was tried again, to the same path, has not failed.
        own = [call for at, call in enumerate(own) if call.ok or all(call.path != c.path for c in own[at + 1 :])]
        usual = min(Counter(call.n for call in life.saves if call.n != self.n).values(), default=0)
        went_on = life.steps.past(self.n) < len(life.steps)
        return all(call.ok and call.ended is not None for call in own) and (went_on or len(own) >= usual)

    @property
    def save(self) -> dict[str, int]:
        """Which save it was, as `StoredCheckpoint` tells it."""
        inc = self.incarnation
        return {"launch": inc.launch, "restart": inc.restart, "n": inc.taken + self.n}

    def away(self, t: float) -> float:
        """How far `t` is from the time of this save."""
        return max(self.begun - t, t - self.until, 0.0)

    def covers(self, t: float) -> bool:
        """Whether a file that was changed last at `t` may be its work."""
        return self.away(t) <= SLACK

    def wrote_to(self, path: str) -> bool:
        return any(below(own, path) for own in self.paths)

    @cached_property
    def copied(self) -> Mapping[str, str]:
        """The paths whose tensors the same rank saved a second time, and where to in the end: `last.ckpt`."""
        found = {}
        for life, call in self.calls:
            same = [one for saver, one in self.calls if saver is life and _tensors(one) == _tensors(call)]
            last = max(same, key=lambda one: one.begun)
            if _tensors(call) and last.path != call.path:
                found[os.path.realpath(call.path)] = os.path.realpath(last.path)
        return found

    def last_of(self, path: str) -> str:
        """The path itself or, where what is saved there was saved again, that of the last copy."""
        own = next((own for own in self.copied if below(own, path)), None)
        return self.copied[own] + path.removeprefix(own) if own is not None else path


def below(own: str, path: str) -> bool:
    return path == own or path.startswith(own + os.sep)


def _tensors(call: Save) -> dict[str, str]:
    """What was saved of it, but for numbers and names: a counter of saves may have moved between two copies."""
    return {key: value for key, value in call.content.items() if not value.startswith("=")}


def checkpoints(run_dir: Path, out: Path) -> tuple[StoredCheckpoint, ...]:
    """The complete saves of which files are left, newest first. Raises LookupError if the record has none, or if no
    file of the newest is left.
    """
    every = saves(run_dir)
    # Nobody resumes from an export, unless the job saves nothing else.
    any_full = any(one.full for one in every)
    whole = [one for one in reversed(every) if one.full == any_full and one.whole]
    if not whole:
        raise LookupError("no checkpoint has been saved yet, to its end and on every rank")
    files: dict[int, list[str]] = {}
    for name, owner in owners(every, out):
        files.setdefault(id(owner), []).append(name)
    if id(whole[0]) not in files:
        raise LookupError(f"nothing is left of the newest checkpoint, which was saved to {min(whole[0].paths)}")
    root = os.path.realpath(out)
    found = []
    for one in (made for made in whole if id(made) in files):
        own = tuple(sorted(files[id(one)]))
        written = [name for name in own if one.wrote_to(os.path.join(root, name))]
        lasts = {name: os.path.relpath(one.last_of(os.path.join(root, name)), root) for name in written}
        # A last copy that is gone leaves the others to be what there is.
        lasts = {name: to if to in own else name for name, to in lasts.items()}
        last = tuple(name for name in written if lasts[name] == name)
        copies = {name: tuple(copy for copy in written if lasts[copy] == name != copy) for name in last}
        for name, alike in copied_files(out, own, written).items():
            copies[name] = tuple(dict.fromkeys((*copies.get(name, ()), *alike)))
        copies = {name: others for name, others in copies.items() if others}
        found.append(StoredCheckpoint(own, one.save, last, copies))
    return tuple(found)


def saves(run_dir: Path) -> list[MadeSave]:
    """Every save of the run, oldest first."""
    history = History.read(run_dir)
    found: dict[tuple[int, int], list[tuple[RankLifetime, Save]]] = {}
    for inc, life in lifetimes(history):
        for call in life.saves:
            found.setdefault((inc.index, call.n), []).append((life, call))
    return [MadeSave(history.incarnations[index], n, tuple(calls)) for (index, n), calls in sorted(found.items())]


def owners(every: list[MadeSave], out: Path) -> Iterator[tuple[str, MadeSave | None]]:
    """Every file under `out` by its name, and the save that it belongs to."""
    root = os.path.realpath(out)
    since = time.time() - time.monotonic()
    for directory, _, names in os.walk(root):
        for path in (os.path.join(directory, name) for name in names):
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield os.path.relpath(path, root), _owner(every, path, found.st_mtime_ns / 1e9 - since)


def _owner(every: list[MadeSave], path: str, t: float) -> MadeSave | None:
    """Of the saves that went to that path, or if none did of all, the one in whose time the file was written."""
    named = [made for made in every if made.wrote_to(path)]
    nearest = min(named or every, key=lambda made: (made.away(t), -made.begun), default=None)
    if nearest is not None and nearest.covers(t):
        return nearest
    # A copy may have a time of its own: then its path alone says it.
    return max(named, key=lambda made: made.begun, default=None)
