"""`Throughput`: how many steps per second each rank took, and how its own work compares with that of its peers, during
each fault that lasted and outside of all of them.

All ranks of a synchronous job take as many steps per second as the slowest one. What tells them apart is for how long a
rank has work of its own in a step: the others sleep until it is done (see `chaoskit.probe.own_time`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import fmean
from typing import Any

from chaoskit.analysis.record.history import History, lifetimes
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.stats import signed_rank

#: A difference counts if chance alone makes one so large, for any rank, in fewer than this share of runs without one,
#: and if it is this large.
ALPHA, LEAST = 0.001, 0.1
#: More steps than these, evenly spread, would tell no more, and the test is quadratic.
COMPARED = 100


@dataclass(frozen=True)
class Throughput:
    """One rank, while fault number `fault` lasted, or outside of all faults (None).

    `steps` were taken, `steps_per_second` on average. `own_seconds` is the mean time in which the rank had work in a
    step, without the steps in which it saved or loaded; None if that is not known, as with an accelerator. `slower` is
    by which share its pace in that time was below that of its peers, the median of the other ranks (0.3: 30 % slower;
    negative: faster); None without peers. `certain`: the same steps, compared one by one, show that it is slower.
    """

    rank: int
    fault: int | None
    steps: int
    steps_per_second: float
    own_seconds: float | None = None
    slower: float | None = None
    certain: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "rank": self.rank,
            "fault": self.fault,
            "steps": self.steps,
            "steps_per_second": _rounded(self.steps_per_second),
            "own_seconds": _rounded(self.own_seconds),
            "slower": _rounded(self.slower),
            "certain": self.certain,
        }


@dataclass(frozen=True)
class _Stretch:
    """Some steps of one rank in one incarnation: those at the places from `first` to `end` (exclusive)."""

    incarnation: int
    lifetime: RankLifetime
    first: int
    end: int


def throughput(history: History) -> tuple[Throughput, ...]:
    """Every rank: during each fault that lasted, and outside of them. A rank that took no step there is left out."""
    windows = [
        (fault.index, fault.applied, fault.healed)
        for fault in history.faults
        if fault.applied is not None and fault.observed is not None and fault.healed is not None
    ]
    found: list[Throughput] = []
    for index, begun, ended in windows:
        found += _compared(_parts(history, [(begun, ended)]), index)
    apart, since = [], -math.inf
    for _, begun, ended in sorted(windows, key=lambda window: window[1]):
        apart.append((since, begun))
        since = max(since, ended)
    return (*found, *_compared(_parts(history, [*apart, (since, math.inf)]), None))


def stragglers(found: Iterable[Throughput]) -> tuple[Throughput, ...]:
    """Those that were certainly slower than their peers, and not by little; the slowest first."""
    slow = [one for one in found if one.certain and one.slower is not None and one.slower >= LEAST]
    return tuple(sorted(slow, key=lambda one: -(one.slower or 0.0)))


def slow_rank(one: Throughput, history: History) -> str:
    """'rank 1 ran 30 % slower than its peers during throttle rank 1'."""
    during = next((f" during '{fault.name}'" for fault in history.faults if fault.index == one.fault), "")
    return f"rank {one.rank} ran {100 * (one.slower or 0.0):.0f} % slower than its peers{during}"


def _parts(history: History, times: Sequence[tuple[float, float]]) -> dict[int, list[_Stretch]]:
    """By rank, the steps that were prepared from beginning to end within one of these times."""
    found: dict[int, list[_Stretch]] = {}
    for incarnation, lifetime in lifetimes(history):
        steps = lifetime.steps
        for begun, ended in times:
            # A step is prepared from the time of the one before it to its own.
            first, end = steps.before(begun) + 1, steps.until(ended)
            if first < end:
                found.setdefault(lifetime.rank, []).append(_Stretch(incarnation.index, lifetime, first, end))
    return found


def _compared(parts: Mapping[int, Sequence[_Stretch]], fault: int | None) -> Iterator[Throughput]:
    """The steps of each rank beside the same steps of the others."""
    counts = {rank: sum(part.end - part.first for part in own) for rank, own in parts.items()}
    every = max(1, -(-max(counts.values(), default=0) // COMPARED))
    work = {rank: _work(own, every) for rank, own in parts.items()}
    together: dict[tuple[int, int], list[float]] = {}
    for own in work.values():
        for step, seconds in own.items():
            together.setdefault(step, []).append(seconds)
    for times in together.values():
        times.sort()
    for rank, own_parts in sorted(parts.items()):
        spans = [
            part.lifetime.steps.times[part.end - 1] - part.lifetime.steps.times[part.first - 1]
            for part in own_parts
        ]
        mine = work[rank]
        pairs = [(mine[step], peers) for step in mine if (peers := _peers(together[step], mine[step])) is not None]
        own_sum, peer_sum = fsum(pair[0] for pair in pairs), fsum(pair[1] for pair in pairs)
        if fsum(spans) > 0:
            yield Throughput(
                rank,
                fault,
                counts[rank],
                counts[rank] / fsum(spans),
                own_seconds=fmean(mine.values()) if mine else None,
                slower=1.0 - peer_sum / own_sum if own_sum > 0 else None,
                certain=_chance(pairs) < ALPHA / len(parts),
            )


def _work(parts: Iterable[_Stretch], every: int) -> dict[tuple[int, int], float]:
    """The rank's own work in every so-many-th step, by incarnation and step, as far as it is known. Steps in which it
    saved or loaded are left out: that is no part of its pace."""
    found = {}
    for part in parts:
        steps = part.lifetime.steps
        busy = {call.n for call in part.lifetime.saves} | {call.n for call in part.lifetime.loads}
        for place in range(part.first, part.end):
            n, own = steps.numbers[place], steps.own[place]
            if n % every == 0 and n - 1 not in busy and own >= 0:
                found[part.incarnation, n] = own
    return found


def _peers(times: Sequence[float], own: float) -> float | None:
    """The median of these ascending times without one that is `own`; None if there is no other."""
    if len(times) < 2:
        return None
    at = bisect_left(times, own)
    middle, even = divmod(len(times) - 1, 2)
    low, high = (place + (place >= at) for place in ((middle, middle) if even else (middle - 1, middle)))
    return (times[low] + times[high]) / 2


def _chance(pairs: Sequence[tuple[float, float]]) -> float:
    """How likely the first of each pair is so much larger by chance."""
    return signed_rank.above([math.log(mine / peer) for mine, peer in pairs if mine > 0 and peer > 0])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
