"""`returned_to_reference`: the losses came back to what they would have been."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check
from chaoskit.checks.completed import incomplete
from chaoskit.checks.explanation import explain
from chaoskit.checks.struck import judge_each
from chaoskit.course import Course
from chaoskit.errors import UsageError
from chaoskit.steps import finite, furthest
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class ReturnedToReference:
    """See `returned_to_reference`."""

    within: int | None = None
    band: float = 0.0
    name = "returned_to_reference"

    def __call__(self, case: Case) -> Verdict:
        return judge_each(self.name, case, lambda course: self._judged(case, course))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "within": self.within, "band": self.band}

    def _judged(self, case: Case, course: Course) -> Verdict:
        assert case.reference is not None
        if not self.band and not case.timeline.bitwise:
            sentence = "the job is not deterministic, so that its losses can be held to a band=... only"
            return inconclusive(self.name, sentence, "not-deterministic")
        first, compared, worst = self._first(case, course), 0, 0.0
        counterpart = _counterpart(case, course)
        for step in range(first, min(case.timeline.highest(), case.reference.steps) + 1):
            for rank in range(case.reference.world_size):
                own, wanted = case.timeline.kept(rank, step), case.reference.step(rank, counterpart(step))
                if own is None or wanted is None or not wanted.losses:
                    continue
                got, due = " ".join(own.record.losses), " ".join(wanted.losses)
                off = furthest(got, due) if got != due else 0.0
                far = math.inf if off is None else off
                compared += 1
                worst = max(worst, far)
                if far > self.band:
                    codes = ["loss-diverged"] if finite(got) else ["nonfinite-accepted", "loss-diverged"]
                    limit = f", over band={self.band:g}" if self.band else ""
                    sentence = (
                        f"the loss of rank {rank} in step {step} is {far:.3g} off{limit}: {explain(case, course)}"
                    )
                    return failed(self.name, sentence, *codes)
        if (gap := incomplete(self.name, case, {"compared": compared})) is not None:
            return gap
        if not compared:
            sentence = f"{course.corruption}; no loss from step {first} on was seen to compare"
            return inconclusive(self.name, sentence, "probe-blind")
        how = (
            f"within {self.band:g} of the reference's, the worst {worst:.3g} off"
            if self.band
            else "the reference's to the bit"
        )
        return passed(
            self.name, f"{course.corruption}; from step {first} on every loss is {how}", compared=compared
        )

    def _first(self, case: Case, course: Course) -> int:
        """From which step on the losses count."""
        struck = course.corruption.step
        if self.within is not None:
            return struck + self.within
        if course.recovery is not None and (base := case.timeline.base(course.recovery)) is not None:
            return base + 1
        return (course.detection.step if course.detection is not None else struck) + 1


def _counterpart(case: Case, course: Course) -> Callable[[int], int]:
    """The step of the reference that had the data of a step: a later one where the job left batches out."""
    left = case.omission(course)
    if left is None or left.code or not left.steps:
        return lambda step: step
    assert case.reference is not None and course.recovery is not None
    base = case.timeline.base(course.recovery) or 0
    due = [step for step in range(base + 1, case.reference.steps + 1) if step not in left.steps]
    return lambda step: due[step - base - 1] if 0 < step - base <= len(due) else step


def returned_to_reference(*, within: int | None = None, band: float = 0.0) -> Check:
    """From `within` steps after a number was corrupted (None: from the recovery) every loss that was kept is the
    reference's: to the bit, or within `band` of it, relatively. After batches were left out it is compared with the
    step of the reference that had the same ones.

    Fails with `loss-diverged`, and with `nonfinite-accepted` for a loss that is not a number. Raises UsageError for
    `within` that is no whole number from 0, a band that is no number from 0.
    """
    if within is not None and (isinstance(within, bool) or not isinstance(within, int) or within < 0):
        raise UsageError(f"returned_to_reference: within must be a whole number from 0, not {within!r}")
    if isinstance(band, bool) or not isinstance(band, (int, float)) or not 0 <= band < math.inf:
        raise UsageError(f"returned_to_reference: band must be a number from 0, not {band!r}")
    return ReturnedToReference(within, band)
