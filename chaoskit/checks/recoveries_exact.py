"""`recoveries_exact`: every recovery of a run was exact, and the first one that was not is named by its number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.diagnosis import Diagnosis, diagnose, tell
from chaoskit.analysis.recovery.recovery import Recovery
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.completed import completed, last_step
from chaoskit.checks.matches_reference import matches_reference
from chaoskit.checks.registry import check
from chaoskit.checks.resumed_from_last_valid import ResumedFromLastValid
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class RecoveriesExact:
    """See `recoveries_exact`."""

    name = "recoveries_exact"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        recoveries = case.recoveries
        if not recoveries:
            return inconclusive(self.name, "no fault took effect, so there was no recovery", "fault-not-observed")
        diagnosis = diagnose(case)
        told: list[dict[str, Any]] = []
        unclear: Verdict | None = None
        for number, one in enumerate(recoveries, start=1):
            told.append({"recovery": number, "fault": one.name, "resumed_from": one.resumed_from,
                         "last_valid": one.last_valid, "steps_lost": one.steps_lost})  # fmt: skip
            if (wrong := _wrong(case, diagnosis, one)) is None:
                continue
            which = f"recovery {number} of {len(recoveries)}, after '{one.name}'"
            evidence = {**dict(wrong.evidence), "recovery": number, "recoveries": told}
            numbered = Verdict(self.name, wrong.outcome, f"{which}: {wrong.sentence}", wrong.codes, evidence)
            if wrong.outcome is Outcome.FAIL:
                return numbered
            # What cannot be said of one recovery hides nothing that is wrong with a later one.
            unclear = unclear or numbered
        if unclear is not None:
            return unclear
        return self._whole(case, recoveries, told)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _whole(self, case: Case, recoveries: tuple[Recovery, ...], told: list[dict[str, Any]]) -> Verdict:
        """Judge what no single recovery shows: the end of the job, and what cannot be compared at all."""
        for own in (completed(), ResumedFromLastValid(), matches_reference()):
            verdict = own(case)
            if verdict.outcome is not Outcome.PASS:
                evidence = {**dict(verdict.evidence), "recoveries": told}
                return Verdict(self.name, verdict.outcome, verdict.sentence, verdict.codes, evidence)
        resumed = [one for one in recoveries if one.incarnation is not None]
        if not resumed:
            how = f"survived all {len(recoveries)} faults without a restart"
            if not all(one.ridden_out for one in recoveries):
                how = f"had no step to take after a restart from one of {len(recoveries)} faults"
            sentence = f"the job {how}, so no recovery was tested"
            return inconclusive(self.name, sentence, "nothing-to-resume", recoveries=told)
        steps = ", ".join(str(one.resumed_from) for one in resumed)
        many = len(resumed) != 1
        each = f"all {len(resumed)} recoveries were" if many else "the only recovery was"
        ridden = len(recoveries) - len(resumed)
        more = f"; {ridden} of {len(recoveries)} faults caused no restart, or left no step to take" if ridden else ""
        sentence = (
            f"{each} exact: the job resumed from step{'s' * many} {steps}, and every step equals the reference{more}"
        )
        return passed(self.name, sentence, recoveries=told)


def _wrong(case: Case, diagnosis: Diagnosis, one: Recovery) -> Verdict | None:
    """What is wrong with one recovery; None if nothing is."""
    name = RecoveriesExact.name
    if one.ridden_out:
        return None
    if one.incarnation is None:
        end = completed()(case)
        if end.outcome is not Outcome.PASS:
            return Verdict(name, end.outcome, f"the job did not come back: {end.sentence}", end.codes, end.evidence)
        if any(saved.ok and saved.position >= last_step(case) for saved in case.checkpoints):
            return None  # no step was left, and the state after the last one is kept
        return failed(name, "the job ended without taking another step", "exited-early")
    resume = next((each for each in case.resumes if each.incarnation == one.incarnation), None)
    if resume is not None:
        verdict = ResumedFromLastValid().judge(case, resume)
        if verdict.outcome is not Outcome.PASS:
            return verdict
    findings = [each for each in diagnosis.findings if each.incarnation == one.incarnation]
    scratch = [each for each in diagnosis.scratch if each.incarnation == one.incarnation]
    differences = [each for each in diagnosis.comparison.differences if each.execution.incarnation == one.incarnation]
    codes = tuple(dict.fromkeys(code for each in findings for code in (each.code, *each.more)))
    if findings or scratch:
        own = (*(["restarted-from-scratch"] if scratch else []), *codes)
        return failed(name, tell(case, findings, scratch), *own, table=case.table())
    if differences:
        first = differences[0]
        at, what = first.execution, ", ".join(sorted(first.values))
        sentence = f"rank {at.rank} diverges from the reference at step {at.step}, in {what}"
        return failed(name, sentence, "loss-diverged", table=case.table())
    return None


@check("resumed_from_last_valid", "matches_reference", "completed", "fault-not-observed")
def recoveries_exact() -> Check:
    """Every recovery of the run was exact: each relaunch resumed from its last valid checkpoint, every step equals the
    reference, and the job reached its end. The sentence names the first recovery that was not, by its number.

    For schedules of faults (`Fault.every`). Inconclusive if no fault took effect: the job may have ended before the
    first. Strikes that the end of the job preceded do not count.
    """
    return RecoveriesExact()
