"""`state_restored`: after each resume every component was what an uninterrupted run has at that step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check, unmeasured
from chaoskit.checks.completed import completed
from chaoskit.checks.diagnosis import diagnose, tell
from chaoskit.checks.finding import WORDS, many_ranks
from chaoskit.life import COMPONENTS
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
        told = diagnose(case)
        resumed = {resume.incarnation for resume in case.resumes}
        findings = [one for one in told.findings if one.incarnation in resumed]
        if told.scratch:
            # A fresh start is at 0 in everything: to list it all would hide what happened.
            begun = case.timeline.starts
            exact = {resume.incarnation for resume in told.scratch if begun[resume.incarnation].exact}
            findings = [one for one in findings if one.incarnation not in exact]
        due = {str(resume.incarnation): case.expected(resume) for resume in case.resumes}
        evidence = {"table": case.table(), "expected": due, "findings": [one.to_json() for one in findings]}
        if findings or told.scratch:
            # The codes in the order of the table, whatever was left out above.
            kept = {code for one in findings for code in (one.code, *one.more)} | (
                {"restarted-from-scratch"} if told.scratch else set()
            )
            codes = [code for code in told.codes if code in kept]
            return failed(self.name, tell(case, findings, told.scratch), *codes, **evidence)
        if told.unseen:
            return inconclusive(self.name, "; ".join(dict.fromkeys(told.unseen)), "probe-blind", **evidence)
        assert case.reference is not None
        # What every run draws anew cannot be restored; the losses, against enough controls, must then show the rest.
        undecided = [*told.undecided, *(() if case.reference.statistical else told.loose)]
        if undecided:
            parting = case.reference.parting or case.timeline.departure
            why = parting.sentence if parting is not None else ""
            more = f" and {len(undecided) - 1} more" if len(undecided) > 1 else ""
            sentence = f"cannot be judged: {undecided[0]}{more}; {why}"
            return inconclusive(self.name, sentence, "not-deterministic", **evidence)
        starts = [case.timeline.starts[index] for index in resumed]
        if not all(own.positions.get("model") for start in starts for own in start.ranks.values()):
            return inconclusive(self.name, "the model was not seen after the resume", "probe-blind", **evidence)
        where = ", ".join(f"{position}" for position in dict.fromkeys(due.values()))
        if told.loose:
            sentence = f"all but {', '.join(told.loose)}, which every run has of its own, is that of step {where}"
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
    """What of the state was compared with another number of ranks: 'with 1 rank (...) each of model, LR, data is'."""
    assert case.reference is not None
    starts = [case.timeline.starts[index] for index in resized]
    restored = frozenset.intersection(
        *(own.at(start.base or 0) for start in starts for own in start.ranks.values())
    )
    words = ", ".join(WORDS.get(name, name) for name in COMPONENTS if name in restored)
    sizes = sorted({case.history.incarnations[index].world_size for index in resized})
    return f"with {many_ranks(*sizes)} (the reference has {case.reference.world_size}) each of {words} is"


def state_restored() -> Check:
    """After each resume the model, buffers, optimizer, learning rate, scaler, EMA, random streams and batches of
    every rank are those of the step that the job resumed from; the batches, the LR and the streams for as long as
    that life goes on.

    With another number of ranks the components are compared as wholes, the batches as the samples of all ranks, and of
    a stream, which is then drawn from less or more, no more is claimed than that it did not begin too early.

    Fails with the codes of state and data, or `restarted-from-scratch` where nothing was restored at all.
    """
    return StateRestored()
