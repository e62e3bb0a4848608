"""`Spread`: how far the losses of uninterrupted runs lie apart, and whether those of another run lie within.

For jobs that are not deterministic. The steps after a resume fall into windows, 1-2, 3-4, 5-8, 9-16 and so on, the last
one open, so that a jump at the resume and a slow drift both have a window in which they show. In each window a trace
is one number y, the mean of its log losses (of its losses, where one is not positive). N controls have the mean m and
the standard deviation s; under the hypothesis that the run is one more of them, and y is normal,

    t = (y - m) / (s * sqrt(1 + 1/N))

is Student's with N - 1 degrees of freedom: the prediction interval of one more observation. The test is two-sided. Its
probability of a false alarm, `alpha`, is that of all windows together: each has its share of it (Bonferroni), whether
or not the windows depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chaoskit.analysis.stats.students_t import quantile
from chaoskit.errors import UsageError

#: Fewer say next to nothing of how they spread.
FEWEST = 3
#: Controls that are equal have this standard deviation, relative to the losses: below it there is but rounding.
FLOOR = 1e-12
#: With at least this probability a shift as large as a window's `power_shift` would have been caught.
POWER = 0.9


@dataclass(frozen=True)
class WindowShift:
    """Steps `first` to `last` after the resume: how far the run is from the mean of the controls.

    `shift` is the mean of the log-ratio of the losses (0.01: one percent above), or, where `SpreadTest.relative` is
    False, of their difference. It is outside where |t| exceeds `critical`. A shift of `power_shift` would have been
    caught with probability `POWER` or more (the noncentral t is approximated by the central one, moved; what may be
    missed is shared out as alpha is, so that it holds for the smallest of several windows too).
    """

    first: int
    last: int
    shift: float
    t: float
    critical: float
    power_shift: float

    @property
    def outside(self) -> bool:
        """Whether one more control would hardly ever lie so far away."""
        return abs(self.t) > self.critical


@dataclass(frozen=True)
class SpreadTest:
    """What came of comparing one trace with `controls` of them. `alpha` is the probability that a run which is like
    the controls has any window outside."""

    windows: tuple[WindowShift, ...]
    alpha: float
    controls: int
    relative: bool

    @property
    def within(self) -> bool:
        """Whether no window is outside."""
        return not any(window.outside for window in self.windows)

    @property
    def worst(self) -> WindowShift:
        """The window that is farthest off, measured by t."""
        return max(self.windows, key=lambda window: abs(window.t))

    @property
    def sharpest(self) -> WindowShift:
        """The window with the smallest `power_shift`: smaller shifts the test does not catch reliably."""
        return min(self.windows, key=lambda window: window.power_shift)


@dataclass(frozen=True)
class Spread:
    """The losses of the controls after the step that a run resumes from. Make it by `Spread.of`."""

    controls: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, controls: Sequence[Sequence[float]]) -> Spread:
        """The spread of three or more traces over the same steps, the first of which comes after the resume.

        Raises UsageError for fewer, for traces of unequal length or without a step, and for a loss that is not finite.
        """
        if len(controls) < FEWEST:
            raise UsageError(f"Spread: controls must be at least {FEWEST} traces of losses, not {len(controls)}")
        for trace in controls:
            _require(trace, len(controls[0]), "controls")
        return cls(tuple(tuple(trace) for trace in controls))

    def test(self, losses: Sequence[float], *, alpha: float = 0.01) -> SpreadTest:
        """Compare a run's losses over the same steps.

        Raises UsageError for another number of steps, a loss that is not finite, or an alpha not between 0 and 1.
        """
        if not 0.0 < alpha < 1.0:
            raise UsageError(f"Spread.test: alpha must lie between 0 and 1, not {alpha!r}")
        _require(losses, len(self.controls[0]), "losses")
        relative = all(loss > 0.0 for trace in (*self.controls, losses) for loss in trace)
        measure: Callable[[float], float] = math.log if relative else float
        controls = [[measure(loss) for loss in trace] for trace in self.controls]
        run = [measure(loss) for loss in losses]
        spans = list(_windows(len(run)))
        df = len(controls) - 1
        critical = quantile(1.0 - alpha / len(spans) / 2.0, df)
        margin = critical + quantile(1.0 - (1.0 - POWER) / len(spans), df)
        shifts = []
        for first, last in spans:
            means = [_mean(trace[first - 1 : last]) for trace in controls]
            shift = _mean(run[first - 1 : last]) - _mean(means)
            # Log losses are relative already; losses that are all zero still need a scale.
            error = _error(means, scale=1.0 if relative else max(*map(abs, means), 1e-290))
            shifts.append(WindowShift(first, last, shift, shift / error, critical, margin * error))
        return SpreadTest(tuple(shifts), alpha, len(controls), relative)


def _error(means: Sequence[float], *, scale: float) -> float:
    """The standard error of predicting one more mean from these."""
    count, middle = len(means), _mean(means)
    spread = math.hypot(*(mean - middle for mean in means)) / math.sqrt(count - 1)
    return max(spread, FLOOR * scale) * math.sqrt(1.0 + 1.0 / count)


def _windows(steps: int) -> Iterator[tuple[int, int]]:
    first, last = 1, 2
    while last < steps:
        yield first, last
        first, last = last + 1, 2 * last
    yield first, steps


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _require(trace: Sequence[float], steps: int, name: str) -> None:
    if not trace or len(trace) != steps:
        raise UsageError(f"Spread: {name} must have the losses of the same steps, not {len(trace)} and {steps}")
    for step, loss in enumerate(trace, start=1):
        if not math.isfinite(loss):
            raise UsageError(f"Spread: {name} must be finite, and the loss of step {step} is {loss}")
