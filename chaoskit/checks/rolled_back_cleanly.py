"""`rolled_back_cleanly`: the job's reaction to a wrong number is complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.corruption.propagation import GIVEN, Propagation
from chaoskit.analysis.diagnosis import CODES
from chaoskit.checks.check import Check
from chaoskit.checks.completed import completed, incomplete
from chaoskit.checks.explanation import code_of, components, explain, recorded
from chaoskit.checks.registry import check
from chaoskit.checks.struck import faded, judge_each
from chaoskit.validation import check_choice
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
        return judge_each(self.name, case, lambda propagation: self._judged(case, propagation))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "policy": self.policy}

    def _judged(self, case: Case, propagation: Propagation) -> Verdict:
        seen = _policy(case, propagation)
        if seen is None and propagation.detection is not None and propagation.detection.how != "left-out":
            end = completed()(case)
            sentence = f"{propagation.corruption}; {propagation.detection} and did not continue: {end.sentence}"
            outcome = Outcome.INCONCLUSIVE if end.outcome is Outcome.PASS else end.outcome
            return Verdict(self.name, outcome, sentence, end.codes or ("probe-blind",))
        if seen is None:
            return faded(self.name, case, propagation) or failed(
                self.name, explain(case, propagation), code_of(propagation)
            )
        if self.policy not in (None, seen):
            code = OTHERWISE.get((str(self.policy), seen), "loss-diverged")
            sentence = (
                f"{propagation.corruption}; the observed policy is '{seen}', but '{self.policy}' was declared"
            )
            return failed(self.name, sentence, code, policy=seen)
        judge = {RETRIED: self._retried, SKIPPED: self._skipped, UPDATE_SKIPPED: self._update_skipped}[seen]
        verdict = judge(case, propagation)
        if verdict.outcome is Outcome.PASS and (gap := incomplete(self.name, case, {"policy": seen})) is not None:
            return gap
        return verdict

    def _retried(self, case: Case, propagation: Propagation) -> Verdict:
        assert propagation.recovery is not None
        base = case.timeline.base(propagation.recovery)
        if (wrong := self._state(case, propagation, base)) is not None:
            return wrong
        until = _next_corruption(case, propagation)
        apart = {
            (index, step, rank, name)
            for (index, rank, name), step in case.comparison.first.items()
            if index >= propagation.recovery and (until is None or (index, step) < until)
        }
        prefix = f"{propagation.corruption}; retried: back to step {base}"
        if apart:
            index, step, rank, _ = min(apart)
            names = {name for at in apart if at[:2] == (index, step) for name in at[3:]}
            sentence = (
                f"{prefix}, but in step {step} {components(names)} of rank {rank} differs from the reference"
            )
            return failed(self.name, sentence, *(_codes(case, names) or ["loss-diverged"]), policy=RETRIED)
        if not case.timeline.bitwise:
            sentence = f"{prefix}; the job is not deterministic, so the steps after that cannot be judged"
            return inconclusive(self.name, sentence, "not-deterministic", policy=RETRIED)
        return passed(self.name, f"{prefix}; every later step equals the reference to the bit", policy=RETRIED)

    def _skipped(self, case: Case, propagation: Propagation) -> Verdict:
        assert propagation.recovery is not None
        base = case.timeline.base(propagation.recovery)
        if (wrong := self._state(case, propagation, base)) is not None:
            return wrong
        left = case.skipped_batches(propagation)
        assert left is not None
        steps = ", ".join(map(str, left.steps))
        prefix = f"{propagation.corruption}; skipped: back to step {base}, without the batches of step {steps}"
        if left.code:
            sentence = (
                f"{prefix}, but in step {left.step} rank {left.rank} consumes other data than the reference has "
                "next"
            )
            return failed(self.name, sentence, left.code, policy=SKIPPED)
        early = {
            (step, rank, name)
            for (index, rank, name), step in case.comparison.first.items()
            if index == propagation.recovery and step < min(left.steps)
        }
        # Up to there nothing is left out; only a rate that was lowered makes it another run.
        if early and case.timeline.bitwise and "lr" not in {name for _, _, name in early}:
            step, rank, _ = min(early)
            names = {name for at, whose, name in early if (at, whose) == (step, rank)}
            where = f"before that, in step {step}, {components(names)} of rank {rank}"
            sentence = f"{prefix}, but {where} differs from the reference"
            return failed(self.name, sentence, *(_codes(case, names) or ["loss-diverged"]), policy=SKIPPED)
        return passed(
            self.name, f"{prefix}; the other batches came in their order", policy=SKIPPED, skipped=list(left.steps)
        )

    def _state(self, case: Case, propagation: Propagation, base: int | None) -> Verdict | None:
        """Return the verdict on a wrong state after the rollback; None if the state is right."""
        assert case.reference is not None and propagation.recovery is not None
        prefix = f"{propagation.corruption}; the job went back"
        if base is None:
            sentence = f"{prefix} to a state that matches no step of the run or the reference"
            return failed(self.name, sentence, code_of(propagation))
        for rank, lifetime in case.history.incarnations[propagation.recovery].ranks.items():
            if not lifetime.steps:
                continue
            own, wanted = lifetime.steps[0], case.reference.step(rank, base + lifetime.steps.numbers[0])
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
                late = base >= propagation.corruption.step
                where = f"step {base}{', saved after that' if late else ''}, but there"
                sentence = f"{prefix} to {where} {components(names)} of rank {rank} differs from the reference"
                codes = [code_of(propagation)] if late else _codes(case, names)
                return failed(self.name, sentence, *codes)
        return None

    def _update_skipped(self, case: Case, propagation: Propagation) -> Verdict:
        step = propagation.left_out[0]
        which = ", ".join(map(str, propagation.left_out))
        prefix = f"{propagation.corruption}; update-skipped: the job skipped the update of step {which}"
        wrong = {name for names in propagation.off.get(step, {}).values() for name in names if name in GIVEN}
        if wrong and not propagation.diverged_before:
            sentence = f"{prefix}, but {components(wrong)} was already wrong before: {explain(case, propagation)}"
            return failed(self.name, sentence, code_of(propagation), policy=UPDATE_SKIPPED)
        for step in propagation.left_out:
            for rank in case.history.incarnations[propagation.corruption.incarnation].ranks:
                here, after = (recorded(case, propagation, rank, at) for at in (step, step + 1))
                if here and after and here.components.get("optimizer") != after.components.get("optimizer"):
                    sentence = f"{prefix}, but the optimizer of rank {rank} changed all the same"
                    return failed(self.name, sentence, "optimizer-not-restored", policy=UPDATE_SKIPPED)
        for at, ranks in sorted(propagation.off.items()):
            moved = (
                {"lr"} if at in propagation.left_out else set()
            )  # the schedule may have gone on when that was seen
            names = {name for own in ranks.values() for name in own if _planned(name)} - moved
            if names and not propagation.diverged_before:
                sentence = f"{prefix}, but from step {at} on {components(names)} differs from the reference"
                return failed(self.name, sentence, *_codes(case, names), policy=UPDATE_SKIPPED)
        sentence = f"{prefix}; model and optimizer did not change; data, LR and RNG equal the reference"
        return passed(self.name, sentence, policy=UPDATE_SKIPPED)


def _policy(case: Case, propagation: Propagation) -> str | None:
    """Return the observed policy; None if the job did not continue."""
    if propagation.recovery is not None:
        left = case.skipped_batches(propagation)
        return SKIPPED if left is not None and left.steps else RETRIED
    return UPDATE_SKIPPED if propagation.left_out else None


def _planned(name: str) -> bool:
    """Whether a component does not depend on the results of the training."""
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


def _next_corruption(case: Case, propagation: Propagation) -> tuple[int, int] | None:
    """Return the incarnation and step of the next corruption after the recovery."""
    later = [(one.corruption.incarnation, one.corruption.step) for one in case.propagations]
    return min((at for at in later if at[0] >= (propagation.recovery or 0)), default=None)


@check(
    "nonfinite-accepted", "corruption-accepted", "loss-diverged", "needless-restart", "state", "data", "completed"
)
def rolled_back_cleanly(*, policy: str | None = None) -> Check:
    """After a corruption the job followed its policy completely.

    `retried`: it went back to a checkpoint, consumed the same batches again, and every later step equals the
    reference to the bit. `skipped`: it went back, the state is that of the checkpoint (the learning rate may be
    lower), the run equals the reference up to the first skipped batch, the skipped batches never come again, and the
    others come in their order. `update-skipped`: it skipped the update, model and optimizer did not change, and data,
    learning rate and random streams continue as in the reference. Without `policy` the observed policy is judged.

    Fails with `nonfinite-accepted`, `corruption-accepted` if the wrong number stayed in the state, the codes of state
    and data for what was not restored, `loss-diverged`, `needless-restart`, and with those of `completed`. Raises
    UsageError for an unknown policy.
    """
    if policy is not None:
        check_choice("rolled_back_cleanly", "policy", policy, POLICIES)
    return RolledBackCleanly(policy)
