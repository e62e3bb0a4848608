"""`returned_to_reference`: the losses return to those of an uninterrupted run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.corruption.propagation import Propagation
from chaoskit.analysis.record.steps import finite, furthest
from chaoskit.checks.check import Check
from chaoskit.checks.completed import incomplete
from chaoskit.checks.explanation import explain
from chaoskit.checks.registry import check
from chaoskit.checks.struck import judge_each
from chaoskit.validation import check_number, check_whole
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class ReturnedToReference:
    """See `returned_to_reference`."""

    within: int | None = None
    band: float = 0.0
    name = "returned_to_reference"

    def __call__(self, case: Case) -> Verdict:
        return judge_each(self.name, case, lambda propagation: self._judged(case, propagation))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "within": self.within, "band": self.band}

    def _judged(self, case: Case, propagation: Propagation) -> Verdict:
        assert case.reference is not None
        if not self.band and not case.timeline.bitwise:
            sentence = "the job is not deterministic, so its losses can only be compared within a band=..."
            return inconclusive(self.name, sentence, "not-deterministic")
        first, compared, worst = self._first(case, propagation), 0, 0.0
        counterpart = _counterpart(case, propagation)
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
                    limit = f", more than band={self.band:g}" if self.band else ""
                    sentence = (
                        f"the loss of rank {rank} in step {step} has a relative difference of {far:.3g}{limit}: "
                        f"{explain(case, propagation)}"
                    )
                    return failed(self.name, sentence, *codes)
        if (gap := incomplete(self.name, case, {"compared": compared})) is not None:
            return gap
        if not compared:
            sentence = f"{propagation.corruption}; no loss from step {first} on was recorded"
            return inconclusive(self.name, sentence, "probe-blind")
        how = (
            f"within {self.band:g} of the reference's; the largest relative difference is {worst:.3g}"
            if self.band
            else "equal to the reference's to the bit"
        )
        return passed(
            self.name, f"{propagation.corruption}; from step {first} on every loss is {how}", compared=compared
        )

    def _first(self, case: Case, propagation: Propagation) -> int:
        """Return the first step whose loss is compared."""
        struck = propagation.corruption.step
        if self.within is not None:
            return struck + self.within
        if propagation.recovery is not None and (base := case.timeline.base(propagation.recovery)) is not None:
            return base + 1
        return (propagation.detection.step if propagation.detection is not None else struck) + 1


def _counterpart(case: Case, propagation: Propagation) -> Callable[[int], int]:
    """Return a function from a step to the step of the reference with the same data: a later one if the job skipped
    batches."""
    left = case.skipped_batches(propagation)
    if left is None or left.code or not left.steps:
        return lambda step: step
    assert case.reference is not None and propagation.recovery is not None
    base = case.timeline.base(propagation.recovery) or 0
    due = [step for step in range(base + 1, case.reference.steps + 1) if step not in left.steps]
    return lambda step: due[step - base - 1] if 0 < step - base <= len(due) else step


@check("loss-diverged", "nonfinite-accepted")
def returned_to_reference(*, within: int | None = None, band: float = 0.0) -> Check:
    """From `within` steps after a corruption (None: from the recovery) every kept loss equals the reference's, to the
    bit or within the relative difference `band`. If the job skipped batches, each step is compared with the step of
    the reference that had the same batch.

    Fails with `loss-diverged`, and with `nonfinite-accepted` for a loss that is not finite. Raises UsageError if
    `within` is not a whole number from 0 or `band` is not a number from 0.
    """
    if within is not None:
        check_whole("returned_to_reference", "within", within, least=0)
    check_number("returned_to_reference", "band", band, least=0)
    return ReturnedToReference(within, band)
