"""`Times`: tests whether launches and recoveries became slower between two suites, adjusted for the machine's pace.

`docs/how-to/compare.md` explains the test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from chaoskit.analysis.stats.signed_rank import above, fewest, holm, shift
from chaoskit.engine.result import Result

What = Literal["launch", "recovery", "step"]
Judged = Literal["slower", "faster", "noise", "too few", "pace"]
#: The tested times. Step times are not tested: they are the pace of the machine or of the job, which two suites cannot
#: distinguish.
TESTED: tuple[What, ...] = ("launch", "recovery")
ALPHA = 0.01
#: Relative differences below this do not count: caches and disks cause small ones.
MARGIN = 0.1


@dataclass(frozen=True)
class Ratio:
    """The ratio new / old, and its confidence interval from `low` to `high` at the given `level`."""

    value: float
    low: float
    high: float
    level: float


@dataclass(frozen=True)
class Times:
    """One kind of time in `pairs` experiments: the medians of both suites in seconds, their ratio (None: no pairs),
    the ratio divided by the machine's pace (None for steps), the p-value (`chance`), and the result. `noise`: no
    detectable difference; `too few`: too few pairs for the test."""

    what: What
    pairs: int
    old: float | None = None
    new: float | None = None
    ratio: Ratio | None = None
    paced: Ratio | None = None
    chance: float | None = None
    judged: Judged = "too few"


@dataclass(frozen=True)
class _Pairs:
    """Times of the same experiments; `raw` are the logarithms of new / old, `pace` those of their step times."""

    old: Sequence[float]
    new: Sequence[float]
    raw: Sequence[float]
    pace: Sequence[float]


def times(paired: Iterable[tuple[Result, Result]]) -> tuple[Times, ...]:
    """Compare launch, recovery and step times, in this order."""
    alike = [(a, b) for a, b in paired if a.verdict == b.verdict and ways(a) == ways(b)]
    found = {what: _pairs(alike, what) for what in (*TESTED, "step")}
    needed = fewest(alpha=ALPHA, tests=len(TESTED))
    chances = {what: _chance(found[what]) for what in TESTED if len(found[what].raw) >= needed}
    # A test without enough pairs still counts in Holm's correction.
    rejected = holm({what: min(chances.get(what, (1.0,))) for what in TESTED}, alpha=ALPHA)
    return (
        *(_times(what, found[what], chances.get(what), what in rejected) for what in TESTED),
        _times("step", found["step"], None, False),
    )


def ways(result: Result) -> frozenset[str]:
    """Return the launch modes of an experiment: `warm`, `cold`, or both."""
    return frozenset(how.partition(":")[0] for how in result.launched)


def _seconds(result: Result, what: What) -> float | None:
    values = {"launch": result.launch_seconds, "recovery": result.recovery_seconds, "step": result.step_seconds}
    seconds = values[what]
    return seconds if seconds is not None and 0 < seconds < math.inf else None


def _pairs(alike: Sequence[tuple[Result, Result]], what: What) -> _Pairs:
    """Collect the pairs for which the step times are known too."""
    rows = [
        (x, y, q / p)
        for a, b in alike
        if (x := _seconds(a, what)) and (y := _seconds(b, what))
        if (p := _seconds(a, "step")) and (q := _seconds(b, "step"))
    ]
    raw, pace = [math.log(y / x) for x, y, _ in rows], [math.log(pace) for *_, pace in rows]
    return _Pairs([x for x, *_ in rows], [y for _, y, _ in rows], raw, pace)


def _chance(pairs: _Pairs) -> tuple[float, float]:
    """Return two-sided p-values for slower and faster. Both measured and pace-adjusted times are tested, and the
    larger p-value counts, because a slower machine slows a launch by at most as much as its steps."""
    bound = math.log1p(MARGIN)
    both = [pairs.raw, [d - p for d, p in zip(pairs.raw, pairs.pace, strict=True)]]
    slower = max(above(each, bound) for each in both)
    faster = max(above([-d for d in each], bound) for each in both)
    return min(1.0, 2 * slower), min(1.0, 2 * faster)


def _times(what: What, pairs: _Pairs, chances: tuple[float, float] | None, rejected: bool) -> Times:
    if not pairs.raw:
        return Times(what, 0, judged="pace" if what == "step" else "too few")
    middle = median(pairs.old), median(pairs.new)
    ratio = _ratio(pairs.raw)
    if what == "step":
        return Times(what, len(pairs.raw), *middle, ratio, judged="pace")
    paced = _ratio([d - p for d, p in zip(pairs.raw, pairs.pace, strict=True)])
    if chances is None:
        return Times(what, len(pairs.raw), *middle, ratio, paced)
    judged: Judged = "noise"
    if rejected:
        judged = "slower" if chances[0] < chances[1] else "faster"
    return Times(what, len(pairs.raw), *middle, ratio, paced, min(chances), judged)


def _ratio(logarithms: Sequence[float]) -> Ratio | None:
    found = shift(logarithms, alpha=ALPHA)
    if found is None:
        return None
    return Ratio(math.exp(found.value), math.exp(found.low), math.exp(found.high), found.level)
