"""`recovered_within`: the job recovered fast enough and lost few enough steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.recovery.recovery import Recovery
from chaoskit.checks.check import Check
from chaoskit.checks.completed import completed
from chaoskit.checks.registry import check
from chaoskit.errors import UsageError
from chaoskit.validation import check_number, check_whole
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class RecoveredWithin:
    """See `recovered_within`."""

    seconds: float | None = None
    steps: int | None = None
    name = "recovered_within"

    def __call__(self, case: Case) -> Verdict:
        measured = case.recoveries
        if not measured:
            return inconclusive(self.name, "no fault was observed to take effect", "fault-not-observed")
        evidence = {"recoveries": [dict(one.__dict__) for one in measured]}
        over = [text for one in measured for text in self._over(one)]
        if over:
            return failed(self.name, "; ".join(over), "slow-recovery", **evidence)
        if any(one.incarnation is None and not one.ridden_out for one in measured):
            end = completed()(case)
            if end.outcome is not Outcome.PASS:
                sentence = f"the job did not recover: {end.sentence}"
                return Verdict(self.name, end.outcome, sentence, end.codes, evidence)
        resumed = [one for one in measured if one.incarnation is not None]
        if self.steps is not None and any(one.steps_lost is None for one in resumed):
            return inconclusive(
                self.name, "the step from which the job resumed is unknown", "probe-blind", **evidence
            )
        return passed(self.name, "; ".join(f"'{one.name}': {self._shown(one)}" for one in measured), **evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "seconds": self.seconds, "steps": self.steps}

    def _over(self, one: Recovery) -> list[str]:
        found = []
        if self.seconds is not None and one.recovery_seconds is not None and one.recovery_seconds > self.seconds:
            found.append(
                f"'{one.name}': recovered in {one.recovery_seconds:.1f} s, the limit is {self.seconds:g} s"
            )
        if self.steps is not None and one.steps_lost is not None and one.steps_lost > self.steps:
            found.append(f"'{one.name}': {one.steps_lost} steps were lost, the limit is {self.steps}")
        return found

    @staticmethod
    def _shown(one: Recovery) -> str:
        if one.recovery_seconds is None:
            return "no step was left"
        return f"recovered in {one.recovery_seconds:.1f} s, {one.steps_lost or 0} steps lost"


@check("slow-recovery", "completed")
def recovered_within(*, seconds: float | None = None, steps: int | None = None) -> Check:
    """After each fault the next step came within `seconds`, and the job repeated at most `steps` steps.

    Fails with `slow-recovery`, and, if the job never recovered, with the codes of `completed`. Raises UsageError if
    neither is given or one is not a number from 0.
    """
    if seconds is None and steps is None:
        raise UsageError("recovered_within: give seconds=... or steps=... (or both)")
    if seconds is not None:
        check_number("recovered_within", "seconds", seconds, over=0)
    if steps is not None:
        check_whole("recovered_within", "steps", steps, least=0)
    return RecoveredWithin(seconds, steps)
