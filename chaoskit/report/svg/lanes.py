"""`Lane`: the lifetimes of one rank by global step: where each one began, stalled and ended, and how.

If there are many ranks, equal ones share a lane.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.harness_record import BEFORE_WINDOW, FaultRecord
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.report.svg.fault_windows import active_time

#: Up to this number of ranks each has its own lane.
EACH = 16
#: Maximum number of lanes.
MOST = 64
#: A stall is a step that took longer than the median step of its lifetime by this factor and by this many seconds,
#: without saves and loads. The limits are lower while a fault is active.
TIMES, TIMES_UNDER_FAULT, LEAST, LEAST_UNDER_FAULT = 5.0, 1.5, 1.0, 0.3
#: A rank without an event for this many seconds before it was ended also counts as stalled.
SILENT = 5.0

#: How a lifetime ended: killed by a fault; ended normally; ended by an exception; ended without an exit event; rolled
#: back within its process; the record ends.
End = Literal["struck", "ended", "raised", "gone", "back", "open"]


@dataclass(frozen=True)
class Stall:
    """No event for `seconds` seconds after position `position`."""

    position: int
    seconds: float

    def __str__(self) -> str:
        return f"stalled for {self.seconds:.1f} s after step {self.position}"


@dataclass(frozen=True)
class Bar:
    """One lifetime of a rank, from position `first` to `last`. Lifetimes over the same steps have different rows.
    `taken` is the number of steps that the same process took in earlier lifetimes."""

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
            return f"incarnation {self.incarnation} at step {self.first}, no step taken; {self.how}"
        back = ", after a rollback without a restart" if self.taken else ""
        stalled = "".join(f"; {stall}" for stall in self.stalls)
        return f"incarnation {self.incarnation}: steps {self.first + 1} to {self.last}{back}{stalled}; {self.how}"


@dataclass(frozen=True)
class Lane:
    """The lifetimes of these `ranks`."""

    ranks: tuple[int, ...]
    bars: tuple[Bar, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return 1 + max((bar.row for bar in self.bars), default=0)

    @property
    def name(self) -> str:
        """'rank 1', 'ranks 0, 2–63'."""
        return f"rank{'' if len(self.ranks) == 1 else 's'} {spans(self.ranks)}"


def lanes(case: Case) -> tuple[Lane, ...]:
    """Return the lanes of all ranks in order; with many ranks, equal ones share a lane."""
    own = {rank: tuple(_bars(case, rank)) for rank in case.history.ranks}
    if len(own) <= EACH:
        return tuple(Lane((rank,), bars) for rank, bars in own.items())
    alike: dict[tuple[object, ...], list[int]] = {}
    for rank, bars in own.items():
        alike.setdefault(tuple(map(_alike, bars)), []).append(rank)
    return tuple(Lane(tuple(ranks), own[ranks[0]]) for ranks in alike.values())


def _alike(bar: Bar) -> tuple[object, ...]:
    """Return what equal ranks have in common; seconds are rounded."""
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
    """Return the lifetimes that no lane shows: they took no step, or their steps have unknown positions."""
    return tuple(inc.index for inc in case.history.incarnations if case.timeline.base(inc.index) is None)


def _bars(case: Case, rank: int) -> Iterator[Bar]:
    ends: list[int] = []
    for inc in case.history.incarnations:
        own, base = inc.ranks.get(rank), case.timeline.base(inc.index)
        if own is None or base is None:
            continue
        last = base + (own.steps.numbers[-1] if own.steps else 0)
        row = next((row for row, end in enumerate(ends) if end <= base), len(ends))
        ends[row : row + 1] = [last]
        end, how = ending(case.history, inc, own)
        stalls = tuple(_stalls(case.history, inc, own, base, end))
        yield Bar(inc.index, base, last, row, end, how, stalls, inc.taken)


def ending(history: History, inc: Incarnation, own: RankLifetime) -> tuple[End, str]:
    """Return how a lifetime ended, also in words."""
    following = next((one for one in history.incarnations if one.index == inc.index + 1), None)
    if following is not None and following.taken and following.launch == inc.launch and own.end is not None:
        return "back", "rolled back to a checkpoint without a restart"
    if (fault := _killed_by(history, own)) is not None:
        return "struck", f"killed by '{fault.name}'{_signal(fault)}"
    if own.end is not None:
        return "ended", "ended normally"
    if own.left is not None:
        return "raised", "ended with an exception"
    launch = next((one for one in history.launches if one.index == inc.launch), None)
    if following is not None and following.launch == inc.launch:
        return "gone", f"ended without an exit event before incarnation {following.index} began"
    if launch is None or launch.ended is None:
        return "open", "the record ends here"
    if launch.cause == BEFORE_WINDOW:
        return "open", "the record of the uninterrupted run ends here, and the window begins"
    why = {
        "hang": "because the job hung",
        "deadline": "at the deadline",
        "interrupted": "by an interrupt",
        "fault": "because of a fault",
    }
    cause = why.get(launch.cause or "", f"with exit code {launch.code}")
    return "gone", f"ended without an exit event; its launch ended {cause}"


def _killed_by(history: History, own: RankLifetime) -> FaultRecord | None:
    """Return the fault that killed the process, according to its evidence."""
    for fault in history.faults:
        pids = fault.evidence.get("gone", fault.evidence.get("pids", ()) if "signal" in fault.evidence else ())
        active = active_time(fault)
        if active is None or active[0] < own.start or own.end is not None or fault.observed is None:
            continue
        if _is_among(own, pids, fault) and own.steps.until(active[1] + 1) == len(own.steps):
            return fault
    return None


def _is_among(own: RankLifetime, pids: object, fault: FaultRecord) -> bool:
    """Whether these are the pids of the process and others. Two containers may give the same one to two processes: then
    the references to them, which end with the start of each, tell which is meant."""
    if not isinstance(pids, list | tuple) or own.pid not in pids:
        return False
    keys = fault.evidence.get("processes", ())
    starts = [str(key).rpartition("/")[2] for pid, key in zip(pids, keys, strict=False) if pid == own.pid]
    return not starts or not own.ticks or str(own.ticks) in starts


def _signal(fault: FaultRecord) -> str:
    try:
        return f" ({signal.Signals(fault.evidence['signal']).name})"
    except (KeyError, ValueError):
        return ""


def _stalls(history: History, inc: Incarnation, own: RankLifetime, base: int, end: End) -> Iterator[Stall]:
    times = own.steps.times
    gaps = [(n, a, b) for n, (a, b) in zip(own.steps.numbers, pairwise(times), strict=False)]
    usual = median(b - a for _, a, b in gaps) if gaps else 0.0
    active = [span for fault in history.faults if (span := active_time(fault)) is not None]
    for n, a, b in gaps:
        if b - a - usual <= LEAST_UNDER_FAULT:
            continue
        quiet = b - a - _busy(own, a, b)
        under = any(min(b, last) - max(a, first) > (b - a) / 2 for first, last in active)
        times_, least = (TIMES_UNDER_FAULT, LEAST_UNDER_FAULT) if under else (TIMES, LEAST)
        if quiet > times_ * usual and quiet - usual > least:
            yield Stall(base + n, quiet)
    launch = next((one for one in history.launches if one.index == inc.launch), None)
    if end == "gone" and launch is not None and launch.ended is not None and times:
        later = [one.start for one in history.incarnations if one.start > times[-1]]
        until = min([launch.ended, *later])
        quiet = until - times[-1] - _busy(own, times[-1], until)
        if quiet > max(SILENT, TIMES * usual):
            yield Stall(base + own.steps.numbers[-1], quiet)


def _busy(own: RankLifetime, a: float, b: float) -> float:
    """Return how many seconds between the two times the rank was saving or loading."""
    calls = [(save.begun, save.ended) for save in own.saves]
    calls += [(load.begun, load.ended) for load in own.loads]
    return sum(max(0.0, min(b, ended) - max(a, begun)) for begun, ended in calls if ended is not None)


def shown(found: Sequence[Lane]) -> tuple[Sequence[Lane], int]:
    """Return the lanes to draw, and the number of ranks without a lane."""
    return found[:MOST], sum(len(lane.ranks) for lane in found[MOST:])
