"""`checkpoints_faithful`: each checkpoint equals the state of the run, and each load returns what was saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints import contents
from chaoskit.analysis.checkpoints.contents import AVERAGES, Altered, Unlike
from chaoskit.analysis.diagnosis import diagnose, tell
from chaoskit.analysis.record.history import lifetimes
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class CheckpointsFaithful:
    """See `checkpoints_faithful`."""

    name = "checkpoints_faithful"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        assert case.reference is not None
        saves = [save for _, lifetime in lifetimes(case.history) for save in lifetime.saves]
        loads = [load for _, lifetime in lifetimes(case.history) for load in lifetime.loads if load.content]
        resumed = [base for resume in case.resumes if (base := case.timeline.base(resume.incarnation))]
        if not saves and resumed:
            sentence = (
                f"the job resumed from step {resumed[0]}, but no save was recorded: it writes checkpoints in a way"
            )
            return inconclusive(self.name, f"{sentence} that the probe does not know", "probe-blind")
        if not saves:
            return passed(self.name, "no save was recorded, so there is no checkpoint to judge")
        if not any(save.content for save in saves):
            return inconclusive(self.name, "the contents of the saves were not recorded", "probe-blind")
        altered = list(contents.altered(case.history, case.timeline))
        unlike = list(contents.unlike(case.timeline, case.reference, case.comparison.first))
        unfaithful = [one for one in diagnose(case).findings if one.code == "checkpoint-unfaithful"]
        if altered or unlike or unfaithful:
            changed = [one for one in altered if _was_changed(case, one)]
            codes = ["corrupt-accepted"] if changed else []
            if unfaithful or changed != altered or any(one.live for one in unlike):
                codes.append("checkpoint-unfaithful")
            codes += [_code(one) for one in unlike if not one.live]
            sentences = dict.fromkeys(str(one) for one in [*altered, *_first_of_each(unlike)])
            if unfaithful:
                sentences[tell(case, unfaithful)] = None
            evidence = {"altered": [asdict(one) for one in altered], "unlike": [one.to_json() for one in unlike]}
            return failed(self.name, "; ".join(sentences), *dict.fromkeys(codes), **evidence)
        sentence = f"the contents of {len(saves)} saves equal the state of the run at that time"
        if loads:
            sentence += f", and {len(loads)} loads returned what was saved"
        return passed(self.name, sentence, saves=len(saves), loads=len(loads))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _was_changed(case: Case, one: Altered) -> bool:
    """Whether the load returned other values than the save wrote: a fault changed the files, or another checkpoint was
    read. Else the save itself wrote other values than it was given."""
    harmed = {at for resume in case.resumes for at in (*resume.damaged, *resume.torn)}
    return one.position_read is not None or one.position in harmed


def _code(one: Unlike) -> str:
    names = [*one.keys, one.once]
    averages = one.like_parameters or any(word in name.lower() for name in names for word in AVERAGES)
    number = one.values[0].startswith("=")
    return "ema-not-restored" if averages and not number else "extra-state-not-restored"


def _first_of_each(unlike: list[Unlike]) -> list[Unlike]:
    """Return the first entry for each set of keys: what is wrong in one checkpoint is wrong in all later ones."""
    first: dict[tuple[str, ...], Unlike] = {}
    for one in unlike:
        first.setdefault(one.keys, one)
    return list(first.values())


@check("corrupt-accepted", "checkpoint-unfaithful", "ema-not-restored", "extra-state-not-restored")
def checkpoints_faithful() -> Check:
    """Each save wrote the state that the run had at that step, and each resume loaded what was saved.

    It finds what no component of the live state shows: averages kept by hand, counters (tokens, patience) that
    restarted from 0, values that changed while an asynchronous save was still writing. A file that the job saves once,
    such as an export at the end, must equal that of the reference. Fails with `corrupt-accepted` if a load returned
    other values than were saved, with `checkpoint-unfaithful` if a save wrote other values than the run held, with
    `ema-not-restored` and `extra-state-not-restored`.
    """
    return CheckpointsFaithful()
