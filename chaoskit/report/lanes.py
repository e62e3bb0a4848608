"""`Lane`: what one rank did, life by life, over the true steps: where each life began, stood still and ended, and how.

Ranks that did alike share a lane once there are many.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from chaoskit.checks.check import Case
from chaoskit.history import FaultRecord, History, Incarnation
from chaoskit.life import Life
from chaoskit.report.fault_windows import stroke

#: Up to so many ranks each has a lane of its own.
EACH = 16
#: So many lanes are drawn.
MOST = 64
#: A stall: a step that took so many times as long as most of its life, and at least so many seconds more than its own
#: saves and loads; less is enough while a fault acted.
TIMES, TIMES_UNDER_FAULT, LEAST, LEAST_UNDER_FAULT = 5.0, 1.5, 1.0, 0.3
#: A rank that says nothing for so many seconds, and then is ended, stood still.
SILENT = 5.0

#: How a life ended: a fault struck it down; it ended by itself; it raised; it was gone without a word; it went back to
#: a checkpoint in its process; the record stops.
End = Literal["struck", "ended", "raised", "gone", "back", "open"]


@dataclass(frozen=True)
class Stall:
    """Nothing happened for so many `seconds` after position `position`."""

    position: int
    seconds: float

    def __str__(self) -> str:
        return f"stood still for {self.seconds:.1f} s after step {self.position}"


@dataclass(frozen=True)
class Bar:
    """One life of a rank, from position `first` to `last`, in row `row` of its lane: lives over the same steps stand
    one below the other. `taken` are the steps that its process had taken before, in the lives before this one."""

    incarnation: int
    first: int
    last: int
    row: int
    end: End
    how: str
    stalls: tuple[Stall, ...] = ()
    taken: int = 0

    def __str__(self) -> str:
        if self.last == self.first:
            return f"life {self.incarnation} at step {self.first}, no step taken; {self.how}"
        back = ", after a rollback in its process" if self.taken else ""
        stood = "".join(f"; {stall}" for stall in self.stalls)
        return f"life {self.incarnation}: steps {self.first + 1} to {self.last}{back}{stood}; {self.how}"


@dataclass(frozen=True)
class Lane:
    """What these `ranks` did."""

    ranks: tuple[int, ...]
    bars: tuple[Bar, ...]

    @property
    def rows(self) -> int:
        """How many rows it needs."""
        return 1 + max((bar.row for bar in self.bars), default=0)

    @property
    def name(self) -> str:
        """'rank 1', 'ranks 0, 2–63'."""
        return f"rank{'' if len(self.ranks) == 1 else 's'} {spans(self.ranks)}"


def lanes(case: Case) -> tuple[Lane, ...]:
    """The lanes of all ranks, or of all that are not alike, in order."""
    own = {rank: tuple(_bars(case, rank)) for rank in case.history.ranks}
    if len(own) <= EACH:
        return tuple(Lane((rank,), bars) for rank, bars in own.items())
    alike: dict[tuple[object, ...], list[int]] = {}
    for rank, bars in own.items():
        alike.setdefault(tuple(map(_alike, bars)), []).append(rank)
    return tuple(Lane(tuple(ranks), own[ranks[0]]) for ranks in alike.values())


def _alike(bar: Bar) -> tuple[object, ...]:
    """What two ranks have to share: not the milliseconds."""
    stalls = tuple((stall.position, round(stall.seconds)) for stall in bar.stalls)
    return bar.incarnation, bar.first, bar.last, bar.end, bar.how, stalls


def spans(ranks: Sequence[int]) -> str:
    """'0, 2–63'."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][-1] + 1:
            parts[-1][1:] = [rank]
        else:
            parts.append([rank])
    return ", ".join("–".join(map(str, part)) for part in parts)


def stepless(case: Case) -> tuple[int, ...]:
    """The lives that no lane shows: they took no step, or steps of which nothing tells where they belong."""
    return tuple(inc.index for inc in case.history.incarnations if case.timeline.base(inc.index) is None)


def _bars(case: Case, rank: int) -> Iterator[Bar]:
    ends: list[int] = []
    for inc in case.history.incarnations:
        life, base = inc.ranks.get(rank), case.timeline.base(inc.index)
        if life is None or base is None:
            continue
        last = base + (life.steps.numbers[-1] if life.steps else 0)
        row = next((row for row, end in enumerate(ends) if end <= base), len(ends))
        ends[row : row + 1] = [last]
        end, how = _end(case.history, inc, life)
        stalls = tuple(_stalls(case.history, inc, life, base, end))
        yield Bar(inc.index, base, last, row, end, how, stalls, inc.taken)


def _end(history: History, inc: Incarnation, life: Life) -> tuple[End, str]:
    """How a life ended, and that in words."""
    following = next((one for one in history.incarnations if one.index == inc.index + 1), None)
    if following is not None and following.taken and following.launch == inc.launch and life.end is not None:
        return "back", "went back to a checkpoint, in its process"
    if (fault := _struck_down(history, life)) is not None:
        return "struck", f"struck down by '{fault.name}'{_signal(fault)}"
    if life.end is not None:
        return "ended", "ended by itself"
    if life.left is not None:
        return "raised", "ended with an exception"
    launch = next((one for one in history.launches if one.index == inc.launch), None)
    if following is not None and following.launch == inc.launch:
        return "gone", f"gone without a word before life {following.index} began"
    if launch is None or launch.ended is None:
        return "open", "the record stops here"
    why = {
        "deadline": "at the deadline",
        "interrupted": "as the run was interrupted",
        "fault": "struck by a fault",
    }
    cause = why.get(launch.cause or "", f"with {launch.code}")
    return "gone", f"gone without a word; its launch ended {cause}"


def _struck_down(history: History, life: Life) -> FaultRecord | None:
    """The fault that ended the process, as its evidence says."""
    for fault in history.faults:
        told = fault.evidence.get("gone", fault.evidence.get("pids", ()) if "signal" in fault.evidence else ())
        struck = stroke(fault)
        if struck is None or struck[0] < life.start or life.end is not None or fault.observed is None:
            continue
        if (
            isinstance(told, list | tuple)
            and life.pid in told
            and life.steps.until(struck[1] + 1) == len(life.steps)
        ):
            return fault
    return None


def _signal(fault: FaultRecord) -> str:
    try:
        return f" ({signal.Signals(fault.evidence['signal']).name})"
    except (KeyError, ValueError):
        return ""


def _stalls(history: History, inc: Incarnation, life: Life, base: int, end: End) -> Iterator[Stall]:
    times = life.steps.times
    gaps = [(n, a, b) for n, (a, b) in zip(life.steps.numbers, pairwise(times), strict=False)]
    usual = median(b - a for _, a, b in gaps) if gaps else 0.0
    active = [span for fault in history.faults if (span := stroke(fault)) is not None]
    for n, a, b in gaps:
        if b - a - usual <= LEAST_UNDER_FAULT:
            continue
        quiet = b - a - _busy(life, a, b)
        under = any(min(b, last) - max(a, first) > (b - a) / 2 for first, last in active)
        times_, least = (TIMES_UNDER_FAULT, LEAST_UNDER_FAULT) if under else (TIMES, LEAST)
        if quiet > times_ * usual and quiet - usual > least:
            yield Stall(base + n, quiet)
    launch = next((one for one in history.launches if one.index == inc.launch), None)
    if end == "gone" and launch is not None and launch.ended is not None and times:
        later = [one.start for one in history.incarnations if one.start > times[-1]]
        until = min([launch.ended, *later])
        quiet = until - times[-1] - _busy(life, times[-1], until)
        if quiet > max(SILENT, TIMES * usual):
            yield Stall(base + life.steps.numbers[-1], quiet)


def _busy(life: Life, a: float, b: float) -> float:
    """How long, between the two times, it was saving or loading."""
    calls = [(save.begun, save.ended) for save in life.saves]
    calls += [(load.begun, load.ended) for load in life.loads]
    return sum(max(0.0, min(b, ended) - max(a, begun)) for begun, ended in calls if ended is not None)


def shown(found: Sequence[Lane]) -> tuple[Sequence[Lane], int]:
    """The lanes to draw, and how many ranks have none."""
    return found[:MOST], sum(len(lane.ranks) for lane in found[MOST:])
