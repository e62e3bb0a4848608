"""`state_restored`: after each resume every component equals that of an uninterrupted run at that step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.diagnosis import diagnose, tell
from chaoskit.analysis.finding import WORDS, many_ranks
from chaoskit.analysis.record.rank_lifetime import COMPONENTS
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.completed import completed
from chaoskit.checks.registry import check
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class StateRestored:
    """See `state_restored`."""

    name = "state_restored"

    def __call__(self, case: Case) -> Verdict:
        if not case.resumes:
            return self._no_resume(case)
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        diagnosis = diagnose(case)
        resumed = {resume.incarnation for resume in case.resumes}
        findings = [one for one in diagnosis.findings if one.incarnation in resumed]
        if diagnosis.scratch:
            # A fresh start is at 0 in everything: to list it all would hide what happened.
            begun = case.timeline.starts
            exact = {resume.incarnation for resume in diagnosis.scratch if begun[resume.incarnation].exact}
            findings = [one for one in findings if one.incarnation not in exact]
        due = {str(resume.incarnation): case.expected(resume) for resume in case.resumes}
        evidence = {"table": case.table(), "expected": due, "findings": [one.to_json() for one in findings]}
        if findings or diagnosis.scratch:
            # The codes in the order of the table, whatever was left out above.
            kept = {code for one in findings for code in (one.code, *one.more)} | (
                {"restarted-from-scratch"} if diagnosis.scratch else set()
            )
            codes = [code for code in diagnosis.codes if code in kept]
            if advice := {code: text for code, text in diagnosis.advice.items() if code in kept}:
                evidence["advice"] = advice
            return failed(self.name, tell(case, findings, diagnosis.scratch), *codes, **evidence)
        if diagnosis.unseen:
            return inconclusive(self.name, "; ".join(dict.fromkeys(diagnosis.unseen)), "probe-blind", **evidence)
        assert case.reference is not None
        # What every run draws anew cannot be restored; the losses, against enough controls, must then show the rest.
        undecided = [*diagnosis.undecided, *(() if case.reference.statistical else diagnosis.loose)]
        if undecided:
            divergence = case.reference.divergence or case.timeline.departure
            why = divergence.sentence if divergence is not None else ""
            more = f" and {len(undecided) - 1} more" if len(undecided) > 1 else ""
            sentence = f"cannot be judged: {undecided[0]}{more}; {why}"
            return inconclusive(self.name, sentence, "not-deterministic", **evidence)
        starts = [case.timeline.starts[index] for index in resumed]
        if not all(own.positions.get("model") for start in starts for own in start.ranks.values()):
            return inconclusive(
                self.name, "the model was not recorded after the resume", "probe-blind", **evidence
            )
        where = ", ".join(f"{position}" for position in dict.fromkeys(due.values()))
        if diagnosis.loose:
            sentence = (
                f"every component but {', '.join(diagnosis.loose)}, which differs in every run, is that of step "
                f"{where}"
            )
            return passed(self.name, sentence, **evidence)
        sizes = {start.incarnation for start in starts} & set(case.timeline.resized)
        if sizes:
            return passed(self.name, f"{_at_other_size(case, sizes)} that of step {where}", **evidence)
        return passed(self.name, f"every component on every rank is that of step {where}", **evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _no_resume(self, case: Case) -> Verdict:
        end = completed()(case)
        if end.outcome is not Outcome.PASS:
            return Verdict(self.name, end.outcome, end.sentence, end.codes, end.evidence)
        return passed(self.name, "there was no restart, so there was nothing to restore")


def _at_other_size(case: Case, resized: Collection[int]) -> str:
    """Name the components that were compared with another number of ranks: 'with 1 rank (...) each of model, LR, data
    is'."""
    assert case.reference is not None
    starts = [case.timeline.starts[index] for index in resized]
    restored = frozenset.intersection(
        *(own.at(start.base or 0) for start in starts for own in start.ranks.values())
    )
    words = ", ".join(WORDS.get(name, name) for name in COMPONENTS if name in restored)
    sizes = sorted({case.history.incarnations[index].world_size for index in resized})
    return f"with {many_ranks(*sizes)} (the reference has {case.reference.world_size}) each of {words} is"


@check("state", "data", "restarted-from-scratch", "checkpoint-unfaithful")
def state_restored() -> Check:
    """After each resume the model, buffers, optimizer, learning rate, scaler, EMA, random streams and batches of
    every rank are those of the step from which the job resumed; batches, LR and streams also in all later steps of
    that incarnation.

    With another number of ranks the components are compared over all ranks, the batches as the samples of all ranks,
    and a stream, from which more or less is then drawn, only for not starting too early.

    Fails with the codes of state and data, with `restarted-from-scratch` if nothing was restored at all, or with
    `checkpoint-unfaithful` if the state is that of a checkpoint which did not hold what the run held.
    """
    return StateRestored()
