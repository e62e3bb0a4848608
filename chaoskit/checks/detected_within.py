"""`detected_within`: somebody noticed that a number was wrong, before many more steps had been taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check
from chaoskit.checks.explanation import code_of, explain
from chaoskit.checks.struck import faded, judge_each
from chaoskit.course import Course
from chaoskit.errors import UsageError
from chaoskit.verdict import Verdict, failed, passed


@dataclass(frozen=True)
class DetectedWithin:
    """See `detected_within`."""

    steps: int = 1
    name = "detected_within"

    def __call__(self, case: Case) -> Verdict:
        return judge_each(self.name, case, lambda course: self._judged(case, course))

    def _judged(self, case: Case, course: Course) -> Verdict:
        seen = course.detection
        if seen is not None and seen.after <= self.steps:
            return passed(self.name, f"{course.corruption}; {seen}")
        if (nothing := faded(self.name, case, course)) is not None:
            return nothing
        limit = f"; the limit is {self.steps}" if seen is not None else ""
        return failed(self.name, f"{explain(case, course)}{limit}", code_of(course))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "steps": self.steps}


def detected_within(*, steps: int = 1) -> Check:
    """Each corrupted number was noticed before more than `steps` steps were taken after the one that it struck: the job
    ended itself, left the update out, or rolled back in its processes.

    Fails with `nonfinite-accepted` where what is no number was trained on, else with `corruption-accepted`; the
    sentence tells where the run left the reference, by how much, and how far that had spread. Where nothing ever came
    of the corruption, nothing was tested: inconclusive. Raises UsageError for steps that are no whole number from 0.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise UsageError(f"detected_within: steps must be a whole number from 0, not {steps!r}")
    return DetectedWithin(steps)
