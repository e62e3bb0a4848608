"""`falls_back_to_last_valid`: the job refused a damaged checkpoint and resumed by itself from the newest intact
one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.damage import holds, saves_of
from chaoskit.analysis.checkpoints.resumes import Resume, resume_after
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import Incarnation, lifetimes
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.completed import completed
from chaoskit.checks.registry import check
from chaoskit.checks.resumed_from_last_valid import judge_resume
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, merge, passed


@dataclass(frozen=True)
class FallsBackToLastValid:
    """See `falls_back_to_last_valid`."""

    name = "falls_back_to_last_valid"

    def __call__(self, case: Case) -> Verdict:
        damages = [fault for fault in case.history.faults if fault.observed is not None and _is_damage(fault)]
        if not damages:
            sentence = "no fault was observed to damage a file on disk, so the job had nothing to refuse"
            return inconclusive(self.name, sentence, "fault-not-observed")
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        verdicts = []
        for fault, following in zip(damages, [*damages[1:], None], strict=True):
            until = following.applied if following is not None else None
            later = [inc for inc in case.history.incarnations if _within(inc, fault.applied, until)]
            verdicts.append(self._judge(case, fault, later))
        outcome = merge(verdict.outcome for verdict in verdicts)
        worst = [verdict for verdict in verdicts if verdict.outcome is outcome]
        return Verdict(
            self.name,
            outcome,
            "; ".join(dict.fromkeys(verdict.sentence for verdict in worst)),
            tuple(dict.fromkeys(code for verdict in worst for code in verdict.codes)),
            {
                "damages": [
                    {"fault": fault.name, **v.evidence} for fault, v in zip(damages, verdicts, strict=True)
                ],
                "table": case.table() if outcome is not Outcome.PASS else [],
            },
        )

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _judge(self, case: Case, fault: FaultRecord, later: list[Incarnation]) -> Verdict:
        stepped = {resume.incarnation: resume for resume in case.resumes}
        resume = next((stepped[inc.index] for inc in later if inc.index in stepped), None)
        if resume is None:
            return self._stranded(case, fault)
        judged = judge_resume(self.name, case, resume)
        start = case.history.incarnations[resume.incarnation].start
        failures = [one for one in case.history.launches if _ended_between(one.ended, fault.applied, start)]
        facts = {**judged.evidence, "failed_launches": [one.code for one in failures]}
        if judged.outcome is not Outcome.PASS:
            return Verdict(self.name, judged.outcome, judged.sentence, judged.codes, facts)
        base = case.timeline.starts[resume.incarnation].base
        if fault.healed is not None and fault.healed <= start and failures:
            return self._put_back(case, fault, later[0], facts)
        if base == 0 and saves_of(fault):
            sentence = (
                f"after '{fault.name}' the job restarted from step 0 without asking: {resume.position} steps lost, "
                "and new checkpoints may replace what was left of the old ones"
            )
            return failed(self.name, sentence, "restarted-from-scratch", **facts)
        tried = [one for one in later if one.index <= resume.incarnation]
        if base in resume.damaged and not _read(case, fault, tried):
            altered = ", ".join(one["file"] for one in fault.evidence["files"])
            sentence = (
                f"after '{fault.name}' the job resumed from step {base} and was not observed to read the altered files "
                f"({altered}), so nothing was tested"
            )
            return inconclusive(self.name, sentence, "fault-not-observed", **facts)
        sentence = f"after '{fault.name}' the job {_what(resume, base)}"
        return passed(self.name, sentence, **facts)

    def _put_back(self, case: Case, fault: FaultRecord, first: Incarnation, facts: Mapping[str, Any]) -> Verdict:
        """Judge a job that recovered only after the files had been put back."""
        left = bool(fault.evidence.get("spared", True))
        if fault.healed is not None and first.start < fault.healed:
            written = case.checkpoints
            left = resume_after(case.history, case.timeline, written, first).last_valid > 0
        if left:
            sentence = (
                f"after '{fault.name}' the job recovered only when the files had been put back, although another "
                "checkpoint was intact: a person has to intervene"
            )
            return failed(self.name, sentence, "torn-checkpoint", **facts)
        sentence = (
            f"after '{fault.name}' no checkpoint was intact and the job refused to go on; when the files had been put "
            f"back, it resumed from step {facts['resumed_from']}"
        )
        return passed(self.name, sentence, **facts)

    def _stranded(self, case: Case, fault: FaultRecord) -> Verdict:
        """Judge a job in which no rank took a step afterwards."""
        end = completed()(case)
        if end.outcome is not Outcome.FAIL:
            sentence = f"after '{fault.name}' no step was recorded before the next fault: {end.sentence}"
            return inconclusive(self.name, sentence, *(end.codes or ("probe-blind",)))
        sentence = f"after '{fault.name}' no launch reached a step, so a person has to intervene: {end.sentence}"
        return failed(self.name, sentence, *dict.fromkeys(("torn-checkpoint", *end.codes)), **end.evidence)


def _is_damage(fault: FaultRecord) -> bool:
    """Whether the fault changed files on disk: checkpoints, or a pointer to one."""
    return bool(saves_of(fault)) or "files" in fault.evidence


def _read(case: Case, fault: FaultRecord, tried: Iterable[Incarnation]) -> bool:
    """Whether a rank loaded one of the files that were altered, or a directory that it is in; or anything, where no
    save is known to have written those.
    """
    altered = [PurePosixPath(one["file"]) for one in fault.evidence.get("files", ())]
    loaded = {load.path for inc in tried for lifetime in inc.ranks.values() for load in lifetime.loads}
    saved = {save.path for _, lifetime in lifetimes(case.history) for save in lifetime.saves}
    if not any(holds(path, file) for path in saved for file in altered):
        return bool(loaded)
    return any(holds(path, file) for path in loaded for file in altered)


def _within(inc: Incarnation, since: float | None, until: float | None) -> bool:
    return since is not None and since < inc.start and (until is None or inc.start < until)


def _ended_between(ended: float | None, since: float | None, until: float) -> bool:
    return ended is not None and since is not None and since < ended < until


def _what(resume: Resume, base: int | None) -> str:
    if base in resume.damaged:
        return f"resumed from step {base}; what a fault had altered there made no difference"
    if base in resume.below_damaged:
        return f"resumed from step {base}, because newer checkpoints may depend on the altered one"
    return f"resumed from step {base}, the newest intact checkpoint"


@check(
    "corrupt-accepted",
    "torn-checkpoint",
    "restarted-from-scratch",
    "stale-checkpoint",
    "resumed_from_last_valid",
    "completed",
)
def falls_back_to_last_valid() -> Check:
    """After damage at rest (`file_bitflip`, `truncate`, `delete`, `stale_pointer`, ...) the job refused the damaged
    checkpoint and resumed by itself from the newest intact one. If none was left, it refused to continue. If only an
    older one was damaged, the newest one and the one before the damaged one are both right: the newest may be a
    delta.

    Fails with `corrupt-accepted`; `torn-checkpoint` if no launch reached a step before the files were put back;
    `restarted-from-scratch`, also if all checkpoints were damaged, because a person has to decide that;
    `stale-checkpoint`, and the other codes of `resumed_from_last_valid` and `completed`. Inconclusive if nothing was
    damaged, or if the job was not observed to read the damaged files: it has another copy and was not tested.
    """
    return FallsBackToLastValid()
