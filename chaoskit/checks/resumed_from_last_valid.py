"""`resumed_from_last_valid`: after each fault the job resumed from the last valid checkpoint and from no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.checkpoints.contents import read_intact
from chaoskit.analysis.checkpoints.resumes import Resume, position_at
from chaoskit.analysis.checkpoints.storage_outages import hindrances
from chaoskit.analysis.diagnosis import diagnose
from chaoskit.analysis.finding import show_ranks
from chaoskit.analysis.record.history import lifetimes
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.completed import completed
from chaoskit.checks.registry import check
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, merge, passed


@dataclass(frozen=True)
class ResumedFromLastValid:
    """See `resumed_from_last_valid`."""

    name = "resumed_from_last_valid"

    def __call__(self, case: Case) -> Verdict:
        verdicts = [self.judge(case, resume) for resume in case.resumes]
        stranded = [one for one in case.recoveries if one.incarnation is None and not one.ridden_out]
        if (stranded or not verdicts) and (end := completed()(case)).outcome is not Outcome.PASS:
            # Nobody came back that could be judged: what kept the job from it is what there is to say.
            verdicts.append(Verdict(self.name, end.outcome, end.sentence, end.codes, end.evidence))
        if not verdicts:
            unknown = unmeasured(self.name, case)
            return unknown or passed(self.name, "there was no restart, so there was nothing to resume")
        outcome = merge(verdict.outcome for verdict in verdicts)
        if outcome is Outcome.PASS and not any(case.timeline.base(resume.incarnation) for resume in case.resumes):
            return self._untested(case, verdicts)
        worst = [verdict for verdict in verdicts if verdict.outcome is outcome]
        return Verdict(
            self.name,
            outcome,
            "; ".join(dict.fromkeys(verdict.sentence for verdict in worst)),
            tuple(dict.fromkeys(code for verdict in worst for code in verdict.codes)),
            {
                "resumes": [dict(v.evidence) for v in verdicts if "last_valid" in v.evidence],
                "table": case.table() if outcome is not Outcome.PASS else [],
            },
        )

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _untested(self, case: Case, verdicts: Sequence[Verdict]) -> Verdict:
        """Judge a run that was right to begin again each time: it resumed from nothing, which proves nothing."""
        first = case.reference.saves[0] if case.reference is not None and case.reference.saves else None
        where = f"; the uninterrupted run saves for the first time at step {first}" if first is not None else ""
        sentence = f"no resume was tested: {'; '.join(dict.fromkeys(one.sentence for one in verdicts))}{where}"
        resumes = [dict(verdict.evidence) for verdict in verdicts]
        return inconclusive(self.name, sentence, "nothing-to-resume", resumes=resumes)

    def judge(self, case: Case, resume: Resume) -> Verdict:
        """Judge one resume."""
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        start = case.timeline.starts[resume.incarnation]
        base, valid = start.base, resume.last_valid
        facts = {
            "incarnation": resume.incarnation,
            "resumed_from": base,
            "last_valid": valid,
            "acceptable": sorted(resume.acceptable),
            "position_at_fault": resume.position,
            "faults": list(resume.faults),
        }
        # A rank at 0 was not restored; ranks at several checkpoints read one each.
        if start.apart and all(own.position and own.trusted(own.position) for own in start.ranks.values()):
            rows = "; ".join(f"rank {rank} from {own.position}" for rank, own in start.ranks.items())
            sentence = f"the ranks resumed from different steps: {rows}"
            return failed(self.name, sentence, "ranks-diverged", **facts)
        # What nobody has seen at the base, as a lifetime that had left the reference came there, is not held against
        # it.
        unseen = case.timeline.bitwise and not any(
            base in own.known.get("model", ()) for own in start.ranks.values()
        )
        if base is None or not (start.trusted or unseen):
            return self._untrusted(case, resume, facts)
        # A job may take a last step and save it after the fault, and it may come back to what an earlier lifetime
        # saved.
        earlier = [one.last for one in case.timeline.segments if one.incarnation < resume.incarnation]
        reached = max(earlier, default=0)
        if base > reached:
            sentence = (
                f"the job resumed from step {base}, which the run had not reached (it was at step {reached}): does it "
                "read checkpoints outside of {out}?"
            )
            return failed(self.name, sentence, "corrupt-accepted", **facts)
        if base in resume.acceptable:
            verdict = self._acceptable(case, resume, base, facts)
            skipped = _skipped(case, resume, base)
            if verdict.outcome is Outcome.PASS and skipped is not None:
                if skipped not in {one.position for one in resume.seen} and _was_seen_saving(resume, skipped):
                    sentence = (
                        f"the job resumed from step {base}; the uninterrupted run also saves at step {skipped}, "
                        "but this run "
                        f"had stopped saving: {resume.position - base} steps lost"
                    )
                    return failed(self.name, sentence, "stale-checkpoint", **facts)
                sentence = (
                    f"the job resumed from step {base}; the uninterrupted run also saves at step {skipped}, but "
                    "this run "
                    "completed no save there: its saves fail, or the probe did not record them"
                )
                return inconclusive(self.name, sentence, "probe-blind", **facts)
            return verdict
        if base in resume.damaged and _read_intact(case, resume):
            sentence = (
                f"the job resumed from step {base}; a fault had altered that checkpoint, and all that the job read is "
                "what was saved"
            )
            return passed(self.name, sentence, **facts)
        if base in resume.damaged:
            sentence = (
                f"the job resumed from step {base}, a checkpoint that a fault had altered; the last valid one "
                "was that of "
                f"step {valid}"
            )
            return failed(self.name, sentence, "corrupt-accepted", **facts)
        if base > valid:
            sentence = (
                f"the job resumed from step {base}, where no save was recorded, so the last valid checkpoint is "
                "unknown"
            )
            return inconclusive(self.name, sentence, "probe-blind", **facts)
        return self._older(case, resume, base, facts)

    def _acceptable(self, case: Case, resume: Resume, base: int, facts: Mapping[str, Any]) -> Verdict:
        if base == 0 and not _begun(resume):
            return self._nothing_saved(case, resume, facts)
        if base in resume.below_damaged:
            sentence = (
                f"the job resumed from step {base}: a fault had altered the checkpoint after it, on which newer "
                "ones may "
                "depend"
            )
            return passed(self.name, sentence, **facts)
        if resume.window:
            both = ", ".join(map(str, sorted(resume.acceptable)))
            sentence = (
                f"the job resumed from step {base}; a save had not settled at the fault, so steps {both} are all "
                "right"
            )
            return passed(self.name, sentence, **facts)
        nothing = "no checkpoint was still valid" if resume.damaged else "no checkpoint had been completed"
        what = "the last valid checkpoint" if base else f"the beginning, because {nothing}"
        return passed(self.name, f"the job resumed from step {base}, {what}", **facts)

    def _nothing_saved(self, case: Case, resume: Resume, facts: Mapping[str, Any]) -> Verdict:
        assert case.reference is not None
        due = case.reference.saves
        if resume.position == 0 or (due and resume.position <= due[0]):
            return passed(
                self.name, "the job restarted from step 0; no checkpoint was due before the fault", **facts
            )
        errors = [error for _, lifetime in lifetimes(case.history) for error in lifetime.errors]
        if errors:
            sentence = (
                f"the job restarted from step 0 and no save was recorded, but the probe had errors: {errors[0]}"
            )
            return inconclusive(self.name, sentence, "probe-blind", **facts)
        sentence = f"the job restarted from step 0 after {resume.position} steps; no save was ever recorded"
        return failed(self.name, sentence, "restarted-from-scratch", **facts)

    def _untrusted(self, case: Case, resume: Resume, facts: Mapping[str, Any]) -> Verdict:
        start = case.timeline.starts[resume.incarnation]
        expected = case.expected(resume)
        unknown = [rank for rank, own in start.ranks.items() if expected not in own.known.get("model", ())]
        if unknown and not case.timeline.bitwise:
            sentence = (
                "the job is not deterministic and its state after the resume was not recorded before, so the step from "
                "which it resumed is unknown"
            )
            return inconclusive(self.name, sentence, "not-deterministic", **facts)
        if any(own.positions.get("model") is None for own in start.ranks.values()):
            sentence = (
                "the model was not recorded after the resume, so the step from which the job resumed is unknown"
            )
            return inconclusive(self.name, sentence, "probe-blind", **facts)
        off = [rank for rank, own in start.ranks.items() if expected not in (own.positions["model"] or ())]
        findings = [one for one in diagnose(case).findings if one.incarnation == resume.incarnation]
        if any((one.component, one.code) == ("model", "checkpoint-unfaithful") for one in findings):
            sentence = (
                f"the save of step {expected} held another model than the run did, and the job resumed from it "
                f"({show_ranks(off)})"
            )
            return failed(self.name, sentence, "checkpoint-unfaithful", **facts)
        models = [one.code for one in findings if one.component == "model"]
        if models and set(models) == {"ema-not-restored"}:
            sentence = (
                f"the job resumed from step {expected}, but not the average that is a part of its model "
                f"({show_ranks(off)})"
            )
            return failed(self.name, sentence, "ema-not-restored", **facts)
        sentence = (
            f"after the resume the model of {show_ranks(off)} is not that of step {expected}, as it should be"
        )
        codes = ["model-not-restored"]
        nowhere = all(not own.positions["model"] for own in start.ranks.values())
        if _read_intact(case, resume):
            sentence += "; what the job read is what was saved, and what it made of that is not"
        elif start.base in resume.torn and nowhere:
            sentence += f"; the fault had left the save of step {start.base} unfinished, and the job loaded it"
            codes.insert(0, "corrupt-accepted")
        elif resume.damaged & {start.base, expected}:
            sentence += (
                f"; a fault had altered the checkpoint of step {start.base or expected}, and the job loaded it"
            )
            codes.insert(0, "corrupt-accepted")
        elif resume.damaged and nowhere:
            sentence += (
                f", nor of any other step; a fault had altered the checkpoint of step {max(resume.damaged)}, and "
                "the job "
                "loaded the altered one"
            )
            codes.insert(0, "corrupt-accepted")
        return failed(self.name, sentence, *codes, **facts)

    def _older(self, case: Case, resume: Resume, base: int, facts: Mapping[str, Any]) -> Verdict:
        valid = resume.last_valid
        codes = ["restarted-from-scratch" if base == 0 else "stale-checkpoint"]
        what = "the job restarted from step 0" if base == 0 else f"the job resumed from step {base}"
        lost = f"{resume.position - base} steps lost"
        sentence = f"{what}, although the checkpoint of step {valid} was valid: {lost}"
        if resume.destroyed:
            codes.insert(0, "checkpoint-lost")
            sentence = f"{what}: an unfinished save overwrote the valid checkpoint of step {valid}; {lost}"
            if base == 0 and not _looked(case, resume):
                codes.reverse()
                sentence = (
                    f"{what}, and no rank was seen to load a checkpoint before its first step: {lost}; besides, an "
                    f"unfinished save had overwritten the valid checkpoint of step {valid}"
                )
        elif resume.removed:
            codes.insert(0, "checkpoint-lost")
            sentence = (
                f"{what}: the checkpoint of step {valid} had been completed, but no file of it was left; {lost}"
            )
        elif base and (other := _other_kind(resume, base)) is not None:
            sentence = (
                f"the job resumed from step {base}; the newer save of step {other.position} went to another kind "
                "of file "
                f"({', '.join(sorted(other.kinds))}), and nothing shows whether it was a checkpoint to resume from"
            )
            return inconclusive(self.name, sentence, "probe-blind", **facts)
        return failed(self.name, sentence, *codes, **facts)


def judge_resume(name: str, case: Case, resume: Resume) -> Verdict:
    """Judge one resume, as the verdict of the check `name`."""
    return replace(ResumedFromLastValid().judge(case, resume), check=name)


def _read_intact(case: Case, resume: Resume) -> bool:
    """Whether the job was seen to read nothing but what was saved, so that no altered byte is to blame."""
    return read_intact(case.history, case.timeline, case.history.incarnations[resume.incarnation])


def _looked(case: Case, resume: Resume) -> bool:
    """Whether a rank tried to load a checkpoint before its first step."""
    ranks = case.history.incarnations[resume.incarnation].ranks.values()
    return any(load.n == 0 for lifetime in ranks for load in lifetime.loads)


def _begun(resume: Resume) -> bool:
    """Whether any save had been begun before the fault."""
    return any(one.begun <= resume.struck for one in resume.seen)


def _skipped(case: Case, resume: Resume, base: int) -> int | None:
    """Return the newest position after `base` where a save was due and every rank continued without one."""
    if case.reference is None or not case.reference.saves_by_step:
        return None
    # An asynchronous save may have been on its way, and failed for want of its peers. One that never ends can only be
    # the last one, since each has to end before the next.
    newest = resume.seen[-1] if resume.seen else None
    complete = {
        one.position
        for one in resume.seen
        if one.complete or one.hindered or (one is newest if one.ended is None else one.ended > resume.requested)
    }
    due = [save for save in case.reference.saves if base < save < resume.position and save not in complete]
    return max((save for save in due if not _hindered(case, resume, save)), default=None)


def _hindered(case: Case, resume: Resume, position: int) -> bool:
    """Whether a fault made the storage fail when the previous incarnation was there: then no save is expected."""
    before = case.history.incarnations[resume.before]
    return any(
        position_at(case.timeline, before, each.begun) <= position
        and before.start <= each.ended
        and position <= position_at(case.timeline, before, each.ended)
        for each in hindrances(case.history)
    )


def _was_seen_saving(resume: Resume, position: int) -> bool:
    """Whether the probe recorded saves of the previous incarnation, so that it would have recorded one at `position`
    as well, and no save was still running by then, which may be a reason to skip one."""
    own = [one for one in resume.seen if one.incarnation == resume.before and one.position < position]
    return bool(own) and all(one.ended is not None or not one.ok for one in own)


def _other_kind(resume: Resume, base: int) -> Checkpoint | None:
    """Return the last valid checkpoint if it shares no kind of file with the one that was resumed from, as
    'best.pt'."""
    taken = [one for one in resume.seen if one.position == base]
    newest = [one for one in resume.seen if one.position == resume.last_valid]
    if not taken or not newest:
        return None
    alike = frozenset.union(*(one.kinds for one in taken)) & frozenset.union(*(one.kinds for one in newest))
    return None if alike else newest[-1]


@check(
    "restarted-from-scratch",
    "stale-checkpoint",
    "checkpoint-lost",
    "torn-checkpoint",
    "corrupt-accepted",
    "checkpoint-unfaithful",
    "model-not-restored",
    "ema-not-restored",
    "ranks-diverged",
    "completed",
)
def resumed_from_last_valid() -> Check:
    """After each fault the job resumed from the last valid checkpoint: the newest one whose save had settled before
    the fault.

    If a save was running, that one is right too. If a fault altered an older checkpoint, the one before the altered
    one is right too, because the newest may be a delta. Fails with `stale-checkpoint`, `restarted-from-scratch`,
    `checkpoint-lost`, `corrupt-accepted`, `checkpoint-unfaithful`, `model-not-restored`, `ema-not-restored` (of an
    average that is a part of the model), `ranks-diverged`, and, if the job never recovered, with the codes of
    `completed`. A job that rode the fault out passes. Inconclusive (`nothing-to-resume`) if the run never resumed from
    a checkpoint because it had no valid one.
    """
    return ResumedFromLastValid()
