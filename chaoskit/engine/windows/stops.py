"""`Stops`: the steps at which the ranks of an uninterrupted run wait, so that its `{out}` can be kept.

Either the record of an earlier run shows all of them, or the run follows another one that trains at the same time. The
growing record of that one shows them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.armed_fault import NEVER
from chaoskit.engine.record_readers import record_files
from chaoskit.engine.windows.window_watch import next_look

#: The most states that are kept of a run that follows another; if there are more, every second one is removed.
MOST = 96
#: The number of first saves whose states are never removed.
FIRST = 6
#: The time between two looks at the record of the followed run: see `next_look`.
LOOK_EVERY, SHARE = 0.5, 4.0


class Stops(Protocol):
    """A position is a number of steps. The ranks wait one step after a save, which has settled by then."""

    @property
    def left(self) -> bool:
        """Whether there is still a stop to come."""
        ...

    def next(self, least: int) -> int:
        """The first position from `least` on at which a rank has to stop; `NEVER` if there is none."""
        ...

    def save_before(self, position: int) -> int | None:
        """The position of the save for which ranks wait at this position; None if they do not wait."""
        ...

    def met(self, position: int) -> None:
        """All ranks have arrived: none waits at this position again."""
        ...


class KnownStops:
    """`saves` maps each position at which ranks wait to that of the save before."""

    def __init__(self, saves: Mapping[int, int]) -> None:
        self._saves = dict(saves)

    @property
    def left(self) -> bool:
        """See `Stops`."""
        return bool(self._saves)

    def next(self, least: int) -> int:
        """See `Stops`."""
        return min((at for at in self._saves if at >= least), default=NEVER)

    def save_before(self, position: int) -> int | None:
        """See `Stops`."""
        return self._saves.get(position)

    def met(self, position: int) -> None:
        """See `Stops`."""
        self._saves.pop(position, None)


class FollowedStops:
    """The stops after the saves of the run in `run_dir`, which is ahead. The number of saves is not known: ranks stop
    after each of them at first, and after every second one after each `thin`. The first saves stay, and those before
    the middle and after the beginning of an epoch, where experiments strike."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._files = record_files(keeps=True)
        self._saves: tuple[int, ...] = ()
        self._near: frozenset[int] = frozenset()
        self._met: set[int] = set()
        self._stride = 1
        #: All saves are known whose stop is at this position or before.
        self._known = 0
        self._next_look = 0.0

    @property
    def left(self) -> bool:
        """See `Stops`."""
        return self._known < NEVER or self.next(0) < NEVER

    def next(self, least: int) -> int:
        """See `Stops`. If the followed run is not known to have come so far, the rank stops there, and asks again."""
        if least > self._known:
            self._look()
        if least > self._known:
            return least
        later = (save + 1 for save in self.wanted() if save + 1 >= least and save + 1 not in self._met)
        return min(later, default=min(self._known + 1, NEVER))

    def save_before(self, position: int) -> int | None:
        """See `Stops`."""
        return position - 1 if position - 1 in self.wanted() and position not in self._met else None

    def met(self, position: int) -> None:
        """See `Stops`."""
        self._met.add(position)

    def wanted(self) -> frozenset[int]:
        """The known saves whose states are to be kept."""
        return frozenset({*self._saves[:FIRST], *self._saves[:: self._stride]} | self._near)

    def thin(self) -> bool:
        """Want only every second state from now on; False if none can be spared."""
        before = len(self.wanted())
        self._stride *= 2
        return len(self.wanted()) < before

    def _look(self) -> None:
        """Read what the followed run has recorded since the last look."""
        begun = time.monotonic()
        if begun < self._next_look:
            return
        history = History.read(self._run_dir, files=self._files)
        ranks = history.incarnations[0].ranks if history.incarnations else {}
        if 0 in ranks:
            reference = Reference((history,))
            self._saves = reference.saves
            self._near = frozenset(_near(reference))
            # A rank records a save before its next step.
            steps = min(len(own.steps) for own in ranks.values())
            self._known = NEVER if history.end is not None else max(self._known, steps - 1)
        self._next_look = next_look(begun, every=LOOK_EVERY, times=SHARE)


def _near(reference: Reference) -> Iterable[int]:
    """The saves just before the middle and after the beginning of each of the first epochs."""
    for n, (first, last) in enumerate(pairwise(reference.epochs[:5]), 1):
        for step in (reference.middle_of_epoch(n), last + 2, first + 2):
            yield from [save for save in reference.saves if save + 2 <= step][-2:]
