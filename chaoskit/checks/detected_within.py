"""`detected_within`: the job detected a wrong number within a few steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.corruption.propagation import Propagation
from chaoskit.checks.check import Check
from chaoskit.checks.explanation import code_of, explain
from chaoskit.checks.registry import check
from chaoskit.checks.struck import faded, judge_each
from chaoskit.validation import check_whole
from chaoskit.verdict import Verdict, failed, passed


@dataclass(frozen=True)
class DetectedWithin:
    """See `detected_within`."""

    steps: int = 1
    name = "detected_within"

    def __call__(self, case: Case) -> Verdict:
        return judge_each(self.name, case, lambda propagation: self._judged(case, propagation))

    def _judged(self, case: Case, propagation: Propagation) -> Verdict:
        seen = propagation.detection
        if seen is not None and seen.after <= self.steps:
            return passed(self.name, f"{propagation.corruption}; {seen}")
        if (nothing := faded(self.name, case, propagation)) is not None:
            return nothing
        limit = f"; the limit is {self.steps}" if seen is not None else ""
        return failed(self.name, f"{explain(case, propagation)}{limit}", code_of(propagation))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "steps": self.steps}


@check("nonfinite-accepted", "corruption-accepted")
def detected_within(*, steps: int = 1) -> Check:
    """The job detected each corrupted number at most `steps` steps after the corrupted step: it stopped by itself,
    skipped the update, or rolled back in its processes.

    Fails with `nonfinite-accepted` if the job trained on a non-finite value, else with `corruption-accepted`. The
    sentence says where the run diverged from the reference, by how much, and how far the error spread. If the
    corruption had no effect, nothing was tested and the verdict is inconclusive. Raises UsageError if `steps` is not
    a whole number from 0.
    """
    return DetectedWithin(check_whole("detected_within", "steps", steps, least=0))
