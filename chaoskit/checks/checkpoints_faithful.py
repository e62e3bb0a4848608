"""`checkpoints_faithful`: each checkpoint holds what the run held, and what was saved came back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from chaoskit import contents
from chaoskit.checks.check import Case, Check, unmeasured
from chaoskit.contents import Unlike
from chaoskit.history import lives
from chaoskit.verdict import Verdict, failed, inconclusive, passed

#: What keys of averaged copies are called.
AVERAGES = ("ema", "average", "avg", "shadow", "swa", "target")


@dataclass(frozen=True)
class CheckpointsFaithful:
    """See `checkpoints_faithful`."""

    name = "checkpoints_faithful"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        assert case.reference is not None
        saves = [save for _, life in lives(case.history) for save in life.saves]
        loads = [load for _, life in lives(case.history) for load in life.loads if load.content]
        resumed = [base for resume in case.resumes if (base := case.timeline.base(resume.incarnation))]
        if not saves and resumed:
            sentence = (
                f"the job resumed from step {resumed[0]}, and no save was seen: it writes its checkpoints in a way"
            )
            return inconclusive(self.name, f"{sentence} that the probe does not know", "probe-blind")
        if not saves:
            return passed(self.name, "no save was seen, so there is none that could be wrong")
        if not any(save.content for save in saves):
            return inconclusive(self.name, "what the saves were given was not seen", "probe-blind")
        altered = list(contents.altered(case.history, case.timeline))
        unlike = list(contents.unlike(case.timeline, case.reference, case.comparison.first))
        if altered or unlike:
            codes = ["corrupt-accepted"] if altered or any(one.live for one in unlike) else []
            codes += [_code(one) for one in unlike if not one.live]
            told = dict.fromkeys(str(one) for one in [*altered, *_first_of_each(unlike)])
            evidence = {"altered": [asdict(one) for one in altered], "unlike": [asdict(one) for one in unlike]}
            return failed(self.name, "; ".join(told), *dict.fromkeys(codes), **evidence)
        sentence = f"what {len(saves)} saves were given is what the run held"
        if loads:
            sentence += f", and what {len(loads)} loads gave back is what had been saved"
        return passed(self.name, sentence, saves=len(saves), loads=len(loads))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _code(one: Unlike) -> str:
    averages = any(word in key.lower() for key in one.keys for word in AVERAGES)
    number = one.values[0].startswith("=")
    return "ema-not-restored" if averages and not number else "extra-state-not-restored"


def _first_of_each(unlike: list[Unlike]) -> list[Unlike]:
    """What is wrong in one checkpoint is wrong in all that follow: the first of each is told."""
    first: dict[tuple[str, ...], Unlike] = {}
    for one in unlike:
        first.setdefault(one.keys, one)
    return list(first.values())


def checkpoints_faithful() -> Check:
    """What each save was given is what the run held then, and what each resume read is what had been saved.

    Finds what no component of the live state shows: averages kept by hand, counters (tokens, patience) that started
    anew, values that changed while an asynchronous save was still writing. Fails with `corrupt-accepted`,
    `ema-not-restored`, `extra-state-not-restored`.
    """
    return CheckpointsFaithful()
