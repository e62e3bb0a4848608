"""The statistics of paired times: Wilcoxon's signed-rank test, its interval, and Holm's correction. All of it exact.

The signed-rank test is the sign-flip permutation test on ranks: if nothing has changed, each difference might as
well have had the other sign. Ranks, and not the differences themselves, so that one pair in which a launch hung for
seconds weighs no more than another. Its distribution is counted out, for any number of pairs; nothing is drawn at
random."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from statistics import median


@dataclass(frozen=True)
class Shift:
    """By how much the differences are off zero: the median of all averages of two of them (Hodges and Lehmann), and
    the interval from `low` to `high` in which the true one lies with a probability of `level`."""

    value: float
    low: float
    high: float
    level: float
    pairs: int


def shift(differences: Sequence[float], *, alpha: float = 0.01) -> Shift | None:
    """The shift of paired differences and its interval of 1 - `alpha`; of too few pairs the widest that there is,
    whose level is less. None without any."""
    count = len(differences)
    if not count:
        return None
    averages = _averages(differences)
    # The interval leaves out, at each end, as many averages as the test at alpha / 2 would still reject.
    cut = max(bisect_right(_chances(count), alpha / 2) - 1, 0)
    level = 1 - 2 * _at_most(cut, count)
    return Shift(median(averages), averages[cut], averages[-1 - cut], max(level, 0.0), count)


def above(differences: Sequence[float], bound: float = 0.0) -> float:
    """How likely differences so large are if their true shift is at most `bound`: the p-value, one-sided."""
    sums = _averages(differences)
    # The rank sum of the positive ones is the number of averages above the bound (Tukey); ties count against it.
    over = sum(each > bound for each in sums)
    return _at_most(len(sums) - over, len(differences)) if differences else 1.0


def fewest(*, alpha: float, tests: int) -> int:
    """The number of pairs from which on the least likely outcome of a two-sided test may count, among so many
    tests."""
    return math.ceil(math.log2(2 * tests / alpha))


def holm(found: Mapping[str, float], *, alpha: float) -> frozenset[str]:
    """The tests that reject, so that the probability of any false one among them is at most `alpha` (Holm, 1979)."""
    rejected: set[str] = set()
    for place, (name, chance) in enumerate(sorted(found.items(), key=lambda item: item[1])):
        if chance > alpha / (len(found) - place):
            break
        rejected.add(name)
    return frozenset(rejected)


def _averages(differences: Sequence[float]) -> list[float]:
    """Of each two, and each with itself; ascending."""
    return sorted((a + b) / 2 for place, a in enumerate(differences) for b in differences[place:])


def _at_most(total: int, count: int) -> float:
    """How likely a rank sum of at most `total` is among `count` pairs whose signs are tossed."""
    return _chances(count)[total]


@cache
def _chances(count: int) -> tuple[float, ...]:
    """How likely each rank sum, or a smaller one, is."""
    exactly = [1.0]
    for rank in range(1, count + 1):
        without, with_ = [*exactly, *[0.0] * rank], [*[0.0] * rank, *exactly]
        exactly = [(a + b) / 2 for a, b in zip(without, with_, strict=True)]
    return tuple(accumulate(exactly))
