"""Statistical equivalence, for jobs that are not deterministic: do the losses after each resume lie within the spread
of the controls?

What the controls agree in is still compared to the bit, and the state after a resume is compared with what the run
itself had at that step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaoskit.analysis.alignment.alignment import show_positions
from chaoskit.analysis.case import Case
from chaoskit.analysis.record.steps import Steps, values
from chaoskit.analysis.stats.prediction_interval import POWER, Spread, SpreadTest


@dataclass(frozen=True)
class Tested:
    """The losses of one lifetime, from true step `first` to `last`, against the controls."""

    incarnation: int
    first: int
    last: int
    result: SpreadTest

    def __str__(self) -> str:
        worst, sharpest = self.result.worst, self.result.sharpest
        at = self._steps(worst.first, worst.last)
        caught = self._steps(sharpest.first, sharpest.last)
        return (
            f"the losses of steps {self.first} to {self.last}, in {len(self.result.windows)} windows, compared "
            "with the "
            f"spread of {self.result.controls} controls (Student's t, two-sided, false-alarm probability at "
            f"most {self.result.alpha:g}): the largest deviation is {self._much(worst.shift)}, in steps {at} "
            f"(t = {worst.t:.2f}, limit {worst.critical:.2f}); the test detects a shift of "
            f"{self._much(sharpest.power_shift)} in steps {caught} with probability {POWER:g} or more"
        )

    def _much(self, shift: float) -> str:
        return f"{shift:+.2%}" if self.result.relative else f"{shift:+.3g}"

    def _steps(self, first: int, last: int) -> str:
        return show_positions(range(self.first + first - 1, self.first + last))


def tested(case: Case, *, alpha: float) -> Iterator[Tested]:
    """Each lifetime that resumed, or the only one there is; `alpha` is shared out among them."""
    assert case.reference is not None
    lifetimes = [resume.incarnation for resume in case.resumes] or list(case.timeline.starts)[:1]
    controls = [dict(traces) for traces in case.reference.all_traces()]
    for incarnation in lifetimes:
        base = case.timeline.base(incarnation)
        if base is None or incarnation in case.timeline.resized:
            continue
        own = {
            rank: lifetime.steps
            for rank, lifetime in case.history.incarnations[incarnation].ranks.items()
            if lifetime.steps
        }
        last = min((base + len(steps) for steps in own.values()), default=0)
        first, last = base + 1, min(last, case.reference.steps)
        run = _means(own, range(first - base - 1, last - base))
        spread = [_means(control, range(first - 1, last)) for control in controls]
        if run and all(len(trace) == len(run) for trace in spread):
            yield Tested(incarnation, first, last, Spread.of(spread).test(run, alpha=alpha / len(lifetimes)))


def _means(ranks: dict[int, Steps], places: range) -> list[float]:
    """The mean over ranks and backward passes of each step's loss; cut at the first step without one."""
    found = []
    for place in places:
        losses = [values(steps.losses[place]) for steps in ranks.values() if place < len(steps)]
        numbers = [number for each in losses for number in each or ()]
        if not numbers or None in losses:
            break
        found.append(sum(numbers) / len(numbers))
    return found
