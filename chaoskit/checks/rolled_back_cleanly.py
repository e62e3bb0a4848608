"""`rolled_back_cleanly`: whatever the job did about a wrong number, it did wholly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check
from chaoskit.checks.completed import completed, incomplete
from chaoskit.checks.diagnosis import CODES
from chaoskit.checks.explanation import code_of, components, explain, recorded
from chaoskit.checks.struck import faded, judge_each
from chaoskit.course import GIVEN, Course
from chaoskit.errors import UsageError
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, passed

RETRIED, SKIPPED, UPDATE_SKIPPED = POLICIES = ("retried", "skipped", "update-skipped")

#: What a job did that should have done something else, by that and by what it did.
OTHERWISE = {
    (RETRIED, SKIPPED): "data-skipped",
    (SKIPPED, RETRIED): "data-replayed",
    (UPDATE_SKIPPED, RETRIED): "needless-restart",
    (UPDATE_SKIPPED, SKIPPED): "needless-restart",
}


@dataclass(frozen=True)
class RolledBackCleanly:
    """See `rolled_back_cleanly`."""

    policy: str | None = None
    name = "rolled_back_cleanly"

    def __call__(self, case: Case) -> Verdict:
        return judge_each(self.name, case, lambda course: self._judged(case, course))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "policy": self.policy}

    def _judged(self, case: Case, course: Course) -> Verdict:
        seen = _policy(case, course)
        if seen is None and course.detection is not None and course.detection.how != "left-out":
            end = completed()(case)
            sentence = f"{course.corruption}; {course.detection}, and went on no more: {end.sentence}"
            outcome = Outcome.INCONCLUSIVE if end.outcome is Outcome.PASS else end.outcome
            return Verdict(self.name, outcome, sentence, end.codes or ("probe-blind",))
        if seen is None:
            return faded(self.name, case, course) or failed(self.name, explain(case, course), code_of(course))
        if self.policy not in (None, seen):
            code = OTHERWISE.get((str(self.policy), seen), "loss-diverged")
            sentence = f"{course.corruption}; the policy seen is '{seen}', where '{self.policy}' was declared"
            return failed(self.name, sentence, code, policy=seen)
        judge = {RETRIED: self._retried, SKIPPED: self._skipped, UPDATE_SKIPPED: self._update_skipped}[seen]
        verdict = judge(case, course)
        if verdict.outcome is Outcome.PASS and (gap := incomplete(self.name, case, {"policy": seen})) is not None:
            return gap
        return verdict

    def _retried(self, case: Case, course: Course) -> Verdict:
        assert course.recovery is not None
        base = case.timeline.base(course.recovery)
        if (wrong := self._state(case, course, base)) is not None:
            return wrong
        until = _next_strike(case, course)
        apart = {
            (index, step, rank, name)
            for (index, rank, name), step in case.comparison.first.items()
            if index >= course.recovery and (until is None or (index, step) < until)
        }
        told = f"{course.corruption}; retried: back to step {base}"
        if apart:
            index, step, rank, _ = min(apart)
            names = {name for at in apart if at[:2] == (index, step) for name in at[3:]}
            sentence = f"{told}, and in step {step} {components(names)} of rank {rank} is not the reference's"
            return failed(self.name, sentence, *(_codes(case, names) or ["loss-diverged"]), policy=RETRIED)
        if not case.timeline.bitwise:
            sentence = f"{told}; the job is not deterministic, so whether the rest is right cannot be judged"
            return inconclusive(self.name, sentence, "not-deterministic", policy=RETRIED)
        return passed(self.name, f"{told}, and the rest equals the reference to the bit", policy=RETRIED)

    def _skipped(self, case: Case, course: Course) -> Verdict:
        assert course.recovery is not None
        base = case.timeline.base(course.recovery)
        if (wrong := self._state(case, course, base)) is not None:
            return wrong
        left = case.omission(course)
        assert left is not None
        steps = ", ".join(map(str, left.steps))
        told = f"{course.corruption}; skipped: back to step {base}, without the batches of step {steps}"
        if left.code:
            sentence = f"{told}, but what rank {left.rank} consumes in step {left.step} is not what was due then"
            return failed(self.name, sentence, left.code, policy=SKIPPED)
        early = {
            (step, rank, name)
            for (index, rank, name), step in case.comparison.first.items()
            if index == course.recovery and step < min(left.steps)
        }
        # Up to there nothing is left out; only a rate that was lowered makes it another run.
        if early and case.timeline.bitwise and "lr" not in {name for _, _, name in early}:
            step, rank, _ = min(early)
            names = {name for at, whose, name in early if (at, whose) == (step, rank)}
            where = f"before that, in step {step}, {components(names)} of rank {rank}"
            sentence = f"{told}, but {where} is not the reference's"
            return failed(self.name, sentence, *(_codes(case, names) or ["loss-diverged"]), policy=SKIPPED)
        return passed(
            self.name, f"{told}, and the others in their order", policy=SKIPPED, skipped=list(left.steps)
        )

    def _state(self, case: Case, course: Course, base: int | None) -> Verdict | None:
        """What is wrong with the state that the job went back to; None where nothing is."""
        assert case.reference is not None and course.recovery is not None
        told = f"{course.corruption}; the job went back"
        if base is None:
            sentence = f"{told} to a state that matches no step of the run or the reference"
            return failed(self.name, sentence, code_of(course))
        for rank, life in case.history.incarnations[course.recovery].ranks.items():
            if not life.steps:
                continue
            own, wanted = life.steps[0], case.reference.step(rank, base + life.steps.numbers[0])
            if wanted is None:
                continue
            same = own.components.get("batch") == wanted.components.get("batch")
            # The rate may be lowered on purpose; what a forward pass moves depends on what passes.
            names = {
                name
                for name in case.timeline.comparable - case.reference.idle - {"batch", "lr"}
                if name in own.components and (name in GIVEN or same)
                if own.components[name] != wanted.components.get(name, own.components[name])
            }
            if names:
                late = base >= course.corruption.step
                where = f"step {base}, {'saved after that, ' if late else ''}and there"
                sentence = f"{told} to {where} {components(names)} of rank {rank} is not the reference's"
                codes = [code_of(course)] if late else _codes(case, names)
                return failed(self.name, sentence, *codes)
        return None

    def _update_skipped(self, case: Case, course: Course) -> Verdict:
        step = course.left_out[0]
        which = ", ".join(map(str, course.left_out))
        told = f"{course.corruption}; update-skipped: that of step {which} was left out"
        wrong = {name for names in course.off.get(step, {}).values() for name in names if name in GIVEN}
        if wrong and not course.parted:
            sentence = f"{told}, but {components(wrong)} had been wrong before: {explain(case, course)}"
            return failed(self.name, sentence, code_of(course), policy=UPDATE_SKIPPED)
        for step in course.left_out:
            for rank in case.history.incarnations[course.corruption.incarnation].ranks:
                here, after = (recorded(case, course, rank, at) for at in (step, step + 1))
                if here and after and here.components.get("optimizer") != after.components.get("optimizer"):
                    sentence = f"{told}, which moved the optimizer of rank {rank} all the same"
                    return failed(self.name, sentence, "optimizer-not-restored", policy=UPDATE_SKIPPED)
        for at, ranks in sorted(course.off.items()):
            moved = {"lr"} if at in course.left_out else set()  # the schedule may have gone on when that was seen
            names = {name for own in ranks.values() for name in own if _planned(name)} - moved
            if names and not course.parted:
                sentence = f"{told}, and from step {at} on {components(names)} is not the reference's"
                return failed(self.name, sentence, *_codes(case, names), policy=UPDATE_SKIPPED)
        sentence = f"{told}; model and optimizer are as before it, data, LR and RNG as in the reference"
        return passed(self.name, sentence, policy=UPDATE_SKIPPED)


def _policy(case: Case, course: Course) -> str | None:
    """What the job did, as far as it went on."""
    if course.recovery is not None:
        left = case.omission(course)
        return SKIPPED if left is not None and left.steps else RETRIED
    return UPDATE_SKIPPED if course.left_out else None


def _planned(name: str) -> bool:
    """Whether a component goes its way whatever the training comes to."""
    return name in ("batch", "lr", "options") or name.startswith("rng.")


def _codes(case: Case, names: set[str]) -> list[str]:
    """The codes of components that are off."""
    data = list(case.ledger.codes if case.ledger is not None else ()) or ["data-reordered"]
    found = [
        code
        for name in sorted(names)
        for code in (data if name == "batch" else [CODES.get(name.partition(".")[0], "")])
    ]
    return list(dict.fromkeys(code for code in found if code))


def _next_strike(case: Case, course: Course) -> tuple[int, int] | None:
    """Where, as incarnation and step, the next number was corrupted after the job had gone on."""
    later = [(one.corruption.incarnation, one.corruption.step) for one in case.courses]
    return min((at for at in later if at[0] >= (course.recovery or 0)), default=None)


def rolled_back_cleanly(*, policy: str | None = None) -> Check:
    """After a number was corrupted, what the job did about it holds what it promises.

    `retried`: it went back to a checkpoint, consumed the same batches again, and all the rest is the reference's to the
    bit. `skipped`: it went back, the state is that of the checkpoint (the learning rate may have been lowered), up to
    the first of the offending batches the run is the reference's, they never come again, and the others do in their
    order. `update-skipped`: the update was left out, model and optimizer are what they were before it, and data,
    learning rate and random streams go on as in the reference.
    Without `policy` whichever was seen is judged.

    Fails with `nonfinite-accepted`, `corruption-accepted` where the wrong number stayed in the state, the codes of
    state and data for what was not put back, `loss-diverged`, `needless-restart`, and with those of `completed`.
    Raises UsageError for an unknown policy.
    """
    if policy is not None and policy not in POLICIES:
        raise UsageError(f"rolled_back_cleanly: policy must be one of {', '.join(POLICIES)}, not {policy!r}")
    return RolledBackCleanly(policy)
