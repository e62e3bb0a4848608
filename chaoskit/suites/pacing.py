"""`Times`: whether launches and recoveries of one suite are slower than those of another, the machine's pace aside.

`docs/compare.md` states the test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from chaoskit.results import Result
from chaoskit.suites.noise import above, fewest, holm, shift

What = Literal["launch", "recovery", "step"]
Judged = Literal["slower", "faster", "noise", "too few", "pace"]
#: What is tested. Steps are not: they are the pace of the machine, or of the job, and two suites cannot tell which.
TESTED: tuple[What, ...] = ("launch", "recovery")
ALPHA = 0.01
#: Suites differ by a little that neither pairs nor steps show (caches, the disk): only what is beyond this counts.
MARGIN = 0.1


@dataclass(frozen=True)
class Ratio:
    """New by old, and the interval from `low` to `high` in which it lies with a probability of `level`."""

    value: float
    low: float
    high: float
    level: float


@dataclass(frozen=True)
class Times:
    """One kind of time in `pairs` experiments: the medians of both suites in seconds, their ratio (None: no pairs),
    the same divided by the machine's pace (None for the steps, which are it), how likely that is by chance, and what
    follows from it. `noise`: no difference that could be told from it; `too few`: what could not be told whatever the
    times were."""

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
    """Times of the same experiments; `raw` are the logarithms of new by old, `pace` those of their steps."""

    old: Sequence[float]
    new: Sequence[float]
    raw: Sequence[float]
    pace: Sequence[float]


def times(paired: Iterable[tuple[Result, Result]]) -> tuple[Times, ...]:
    """Launch, recovery and step, in this order."""
    alike = [(a, b) for a, b in paired if a.verdict == b.verdict and ways(a) == ways(b)]
    found = {what: _pairs(alike, what) for what in (*TESTED, "step")}
    needed = fewest(alpha=ALPHA, tests=len(TESTED))
    chances = {what: _chance(found[what]) for what in TESTED if len(found[what].raw) >= needed}
    # A test that could not be made still counts in the correction, so that the others do not get it cheaper.
    rejected = holm({what: min(chances.get(what, (1.0,))) for what in TESTED}, alpha=ALPHA)
    return (
        *(_told(what, found[what], chances.get(what), what in rejected) for what in TESTED),
        _told("step", found["step"], None, False),
    )


def ways(result: Result) -> frozenset[str]:
    """How its launches started: `warm`, `cold`, or both."""
    return frozenset(how.partition(":")[0] for how in result.launched)


def _seconds(result: Result, what: What) -> float | None:
    told = {"launch": result.launch_seconds, "recovery": result.recovery_seconds, "step": result.step_seconds}
    seconds = told[what]
    return seconds if seconds is not None and 0 < seconds < math.inf else None


def _pairs(alike: Sequence[tuple[Result, Result]], what: What) -> _Pairs:
    """Only where the pace is known too."""
    rows = [
        (x, y, q / p)
        for a, b in alike
        if (x := _seconds(a, what)) and (y := _seconds(b, what))
        if (p := _seconds(a, "step")) and (q := _seconds(b, "step"))
    ]
    raw, pace = [math.log(y / x) for x, y, _ in rows], [math.log(pace) for *_, pace in rows]
    return _Pairs([x for x, *_ in rows], [y for _, y, _ in rows], raw, pace)


def _chance(pairs: _Pairs) -> tuple[float, float]:
    """Of being so much slower, and so much faster, by chance: two-sided. Both as measured and divided by the pace: a
    slower machine slows a launch by as much as its steps or by less, and the weaker of the two tests counts."""
    bound = math.log1p(MARGIN)
    both = [pairs.raw, [d - p for d, p in zip(pairs.raw, pairs.pace, strict=True)]]
    slower = max(above(each, bound) for each in both)
    faster = max(above([-d for d in each], bound) for each in both)
    return min(1.0, 2 * slower), min(1.0, 2 * faster)


def _told(what: What, pairs: _Pairs, chances: tuple[float, float] | None, rejected: bool) -> Times:
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
