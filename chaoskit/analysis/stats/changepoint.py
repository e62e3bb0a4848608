"""Change points: since when the values of a series lie higher, or lower, and whether that is more than noise.

At every split of a series with at least `SIDE` values on either side, the values before and after are compared by ranks
(Mann and Whitney, two-sided; its distribution is counted out where the smaller side is small). The most telling split
counts, and its chance is multiplied by the number of splits that could have been as telling (Bonferroni, Tarone): it is
at most so likely that noise alone does this anywhere in the series. Ranks, since one slow night weighs no more than the
next value; either side of a change is looked at again.

Neighbouring nights may be alike (a machine that is busy for a week). With a correlation r of neighbours the rank sum
spreads (1 + r) / (1 - r) times as widely as without, and is judged by that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist, median

#: Fewer values in a row, however high, are no new level.
SIDE = 4
#: Rank sums of larger sides are normal, and the normal distribution has the longer tail: it errs to the safe side.
COUNTED, COUNTED_SIDE = 60, 12
#: More likely ones are of no interest to anyone, and take long to count.
IDLE = 0.02
#: Neighbours that are more alike than this leave nothing to tell from a step.
MOST_ALIKE = 0.9
_TINY = 1e-300


@dataclass(frozen=True)
class LevelStep:
    """The values from the index `at` on lie higher (`up`) or lower than those before; `chance` is how likely noise does
    that anywhere in the series."""

    at: int
    chance: float
    up: bool


@dataclass(frozen=True)
class LevelDifference:
    """How much higher the later values are: the median of all differences, and its interval of 95 %."""

    value: float
    low: float
    high: float


def step(values: Sequence[float], *, alike: float = 0.0) -> LevelStep | None:
    """The most telling split of a series; None if it is too short for any. `alike` is the correlation of
    neighbours."""
    count = len(values)
    best: LevelStep | None = None
    for at, wins in _wins(values):
        chance = _wider(_chance(at, count - at, wins), alike)
        if best is None or chance < best.chance:
            best = LevelStep(at, chance, up=2 * wins > at * (count - at))
    if best is None:
        return None
    return LevelStep(best.at, min(1.0, best.chance * _rivals(count, best.chance)), best.up)


def steps(values: Sequence[float], *, level: float, alike: float = 0.0) -> list[LevelStep]:
    """All steps that are less likely than `level`, in order: the most telling one, then those on either side of it."""
    found = step(values, alike=alike)
    if found is None or found.chance > level:
        return []
    later = steps(values[found.at :], level=level, alike=alike)
    moved = [LevelStep(one.at + found.at, one.chance, one.up) for one in later]
    return [*steps(values[: found.at], level=level, alike=alike), found, *moved]


def fewest(*, level: float) -> int:
    """So many values a series needs for its plainest step, in the middle, to be less likely than `level`."""
    count = 2 * SIDE
    while 2 / math.comb(count, count // 2) * (1 + count % 2) > level:
        count += 1
    return count


def likeness(series: Iterable[Sequence[float]]) -> float:
    """The correlation of neighbours, from 0 to `MOST_ALIKE`: the median over several series of their ranks' own. What
    looks like a step is taken out first, for a step makes neighbours alike; a short series shows too little of it,
    on average, which is made up for."""
    known = [_correlation(values) for values in series if len(values) >= 2 * SIDE]
    return min(max(median(known), 0.0), MOST_ALIKE) if known else 0.0


def difference(before: Sequence[float], after: Sequence[float]) -> LevelDifference:
    """Of two sides of a step (Hodges and Lehmann)."""
    gaps = sorted(late - early for early in before for late in after)
    spread = math.sqrt(len(gaps) * (len(before) + len(after) + 1) / 12)
    cut = max(0, math.floor(len(gaps) / 2 - 1.96 * spread))
    return LevelDifference(median(gaps), gaps[cut], gaps[-1 - cut])


def _wins(values: Sequence[float]) -> Iterable[tuple[int, float]]:
    """Each split, and in how many pairs across it the later value is the higher one; ties count half."""
    ranks = _ranks(values)
    total = 0.0
    for at in range(1, len(values)):
        total += ranks[at - 1]
        if SIDE <= at <= len(values) - SIDE:
            below = total - at * (at + 1) / 2  # pairs in which the earlier one is the higher
            yield at, at * (len(values) - at) - below


def _rivals(count: int, chance: float) -> int:
    """At how many splits something so unlikely could have happened: none is as telling as one in the middle."""
    for at in range(SIDE, count // 2 + 1):
        if 2 / math.comb(count, at) <= chance:
            return count - 2 * at + 1
    return 1


def _ranks(values: Sequence[float]) -> list[float]:
    """From 1; equal values share theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    first = 0
    for place in range(1, len(order) + 1):
        if place == len(order) or values[order[place]] != values[order[first]]:
            for each in order[first:place]:
                ranks[each] = (first + 1 + place) / 2
            first = place
    return ranks


def _chance(before: int, after: int, wins: float) -> float:
    """How likely noise has so many wins, or so few: two-sided, of one split."""
    pairs = before * after
    rare = min(wins, pairs - wins)
    spread = math.sqrt(pairs * (before + after + 1) / 12)
    normal = math.erfc(max(pairs / 2 - rare - 0.5, 0.0) / spread / math.sqrt(2))
    if normal > 4 * IDLE or (before + after > COUNTED and min(before, after) > COUNTED_SIDE):
        return max(normal, _TINY)
    ways = _ways(min(before, after), max(before, after))
    return min(1.0, 2 * ways[math.ceil(rare)] / math.comb(before + after, before))


@lru_cache(maxsize=4096)
def _ways(few: int, many: int) -> list[int]:
    """In how many orders of two sides one has at most 0, 1, 2 ... wins: the coefficients of Gauss's binomial, added up
    to the middle one."""
    most = few * many // 2 + 1
    ways = [1] + [0] * most
    for one in range(1, few + 1):
        for total in range(most, many + one - 1, -1):
            ways[total] -= ways[total - many - one]
        for total in range(one, most + 1):
            ways[total] += ways[total - one]
    for total in range(1, most + 1):
        ways[total] += ways[total - 1]
    return ways


def _wider(chance: float, alike: float) -> float:
    """A chance, judged by the wider spread that neighbours alike give."""
    if not alike or chance >= 1.0:
        return chance
    off = -NormalDist().inv_cdf(max(chance, _TINY) / 2)
    return math.erfc(off * math.sqrt((1 - alike) / (1 + alike)) / math.sqrt(2))


def _correlation(values: Sequence[float]) -> float:
    found = step(values)
    parts = [values[: found.at], values[found.at :]] if found and found.chance < IDLE else [values]
    levels = [median(part) for part in parts]
    centred = [value - level for part, level in zip(parts, levels, strict=True) for value in part]
    ranks = [rank - (len(values) + 1) / 2 for rank in _ranks(centred)]
    own = sum(a * b for a, b in pairwise(ranks)) / (sum(rank * rank for rank in ranks) or 1.0)
    return own + (1 + 4 * max(own, 0.0)) / len(values)
