"""`matches_reference`: every step equals the uninterrupted run to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from chaoskit.analysis.alignment.segment import Execution
from chaoskit.analysis.case import Case
from chaoskit.analysis.comparison import Comparison, Difference
from chaoskit.analysis.diagnosis import Diagnosis, diagnose, tell
from chaoskit.analysis.record.steps import finite, furthest, readable
from chaoskit.checks.band import within
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.completed import incomplete
from chaoskit.checks.equivalence import tested
from chaoskit.checks.registry import check
from chaoskit.checks.thinned import REMEDY, last_whole, or_earlier, recorded
from chaoskit.validation import check_number
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class MatchesReference:
    """See `matches_reference`."""

    rtol: float | None = None
    alpha: float = 0.01
    shift: float = 0.25
    band: float | None = None
    name = "matches_reference"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        own = self._judged(case)
        if own.outcome is Outcome.FAIL or not case.timeline.resized:
            return own
        other = within(self.name, case, self.band)
        if own.outcome is other.outcome is Outcome.PASS:
            return passed(self.name, f"{own.sentence}; {other.sentence}", **{**own.evidence, **other.evidence})
        return own if own.outcome is Outcome.INCONCLUSIVE and other.outcome is not Outcome.FAIL else other

    def _judged(self, case: Case) -> Verdict:
        """Return the verdict on everything that is compared with the reference itself."""
        if case.timeline.bitwise:
            return self._bitwise(case)
        assert case.reference is not None
        divergence = case.reference.divergence or case.timeline.departure
        why = divergence.sentence if divergence is not None else ""
        if self.rtol is not None:
            return self._within(case, self.rtol, why)
        if case.reference.statistical:
            return self._statistical(case, why)
        sentence = (
            f"{why}; equality to the bit cannot be judged (run three or more controls, --controls, to test whether "
            "the losses lie within their spread)"
        )
        return inconclusive(self.name, sentence, "not-deterministic")

    def to_json(self) -> Mapping[str, Any]:
        options = {"rtol": self.rtol, "alpha": self.alpha, "shift": self.shift, "band": self.band}
        return {"name": self.name, **options}

    def _bitwise(self, case: Case) -> Verdict:
        diagnosis = diagnose(case)
        seen = diagnosis.comparison
        evidence: dict[str, Any] = {"compared": seen.compared, "components": sorted(seen.names)}
        if seen.thin:
            evidence["recorded"] = seen.compared - seen.thin
        if seen.differences or diagnosis.findings:
            return self._mismatch(case, diagnosis, evidence)
        if (gap := incomplete(self.name, case, evidence)) is not None:
            return gap
        for name, one in seen.absent.items():
            sentence = f"{name} was not recorded at step {one.step}, rank {one.rank}, so it was not compared"
            return inconclusive(self.name, sentence, "probe-blind", **evidence)
        if (unseen := _unseen(seen)) is not None:
            return inconclusive(self.name, unseen, "probe-blind", **evidence)
        if seen.compared and not seen.names & {"model", "loss"}:
            return inconclusive(self.name, "neither the model nor a loss was recorded", "probe-blind", **evidence)
        again = case.timeline.rolled_back
        extra = f", {again} of them rolled back," if again and not case.timeline.resized else ""
        sentence = f"{seen.compared} executed steps{extra} are equal to the reference to the bit"
        sentence += recorded(seen.compared, seen.thin)
        return passed(self.name, sentence, **evidence)

    def _mismatch(self, case: Case, diagnosis: Diagnosis, evidence: dict[str, Any]) -> Verdict:
        differences = diagnosis.comparison.differences
        codes = [code for code in diagnosis.codes if code != "restarted-from-scratch"]
        parts = [tell(case, diagnosis.findings)] if diagnosis.findings else []
        if (apart := _ranks_apart(case, diagnosis.comparison)) is not None:
            codes.append("ranks-diverged")
            parts.append(f"at step {apart.step} the ranks' models differ; in the reference they are equal")
        if bad := _nonfinite(diagnosis.comparison):
            codes.append("nonfinite-accepted")
            one = bad.execution
            parts.append(f"rank {one.rank} trained on a loss of {bad.values['loss'][0]} at step {one.step}")
        codes = codes or ["loss-diverged"]
        loss = next((one for one in differences if "loss" in one.values), None)
        if loss is not None:
            got, wanted = loss.values["loss"]
            parts.append(f"first wrong loss at step {loss.execution.step}: {got} instead of {wanted}")
        elif differences:
            parts.append(_first(differences[0]) + or_earlier(case, differences[0]))
        if codes == ["loss-diverged"] and loss is not None:
            parts.insert(0, f"{_first(differences[0])}, while every component was right {_until(case, differences[0])}")
        if codes == ["loss-diverged"] and diagnosis.comparison.thin:
            parts.append(f"state was not recorded at every step, so what was wrong first may be unseen; {REMEDY}")
        if diagnosis.advice:
            evidence["advice"] = diagnosis.advice
        evidence["differences"] = [_as_json(one) for one in differences[:20]]
        evidence["table"] = case.table()
        return failed(self.name, readable("; ".join(parts)), *codes, **evidence)

    def _statistical(self, case: Case, why: str) -> Verdict:
        """Compare deterministic components to the bit, and the losses after each resume with the spread of the
        controls."""
        diagnosis = diagnose(case)
        if diagnosis.comparison.differences or diagnosis.findings:
            return self._mismatch(case, diagnosis, {"compared": diagnosis.comparison.compared})
        bad = [one for one in _executions(case) if not finite(" ".join(one.record.losses))]
        if bad:
            sentence = f"rank {bad[0].rank} trained on a loss that is not finite at step {bad[0].step}"
            return failed(self.name, sentence, "nonfinite-accepted")
        lifetimes = list(tested(case, alpha=self.alpha))
        evidence = {"lives": [asdict(one) for one in lifetimes], "components": sorted(diagnosis.comparison.names)}
        outside = [one for one in lifetimes if not one.result.within]
        if outside:
            return failed(self.name, f"{outside[0]}; {why}", "loss-diverged", table=case.table(), **evidence)
        if (gap := incomplete(self.name, case, evidence)) is not None:
            return gap
        if not lifetimes and not case.timeline.resized:
            return inconclusive(self.name, f"no recorded loss could be compared; {why}", "probe-blind")
        weak = [one for one in lifetimes if one.result.sharpest.power_shift > self.shift]
        if weak:
            sentence = (
                f"{weak[0]}: that is more than shift={self.shift:g}, so a pass would prove almost nothing; run more "
                f"controls (--controls); {why}"
            )
            return inconclusive(self.name, sentence, "not-deterministic", **evidence)
        seen = diagnosis.comparison
        if (unseen := _unseen(seen)) is not None:
            return inconclusive(self.name, unseen, "probe-blind", **evidence)
        exact = ", ".join(sorted(seen.names - {"loss"}))
        at = f", the state in the {seen.compared - seen.thin} of {seen.compared} steps that recorded it"
        same = f"equal to the bit: {exact or 'nothing'}{at if seen.thin else ''}"
        sentence = "; ".join([*map(str, lifetimes), same, why])
        return passed(self.name, sentence, **evidence)

    def _within(self, case: Case, rtol: float, why: str) -> Verdict:
        """Compare only losses: each must lie within `rtol` of the nearest control."""
        assert case.reference is not None
        compared, worst = 0, 0.0
        for one in _executions(case):
            wanted = [
                lifetime.steps[one.step - 1].losses
                for control in case.reference.controls
                if (lifetime := control.incarnations[0].ranks.get(one.rank)) and one.step <= len(lifetime.steps)
            ]
            own = " ".join(one.record.losses)
            gaps = [far for losses in wanted if (far := furthest(own, " ".join(losses))) is not None]
            if not finite(own) and all(finite(" ".join(losses)) for losses in wanted):
                sentence = f"rank {one.rank} trained on a loss that is not finite at step {one.step}"
                return failed(self.name, sentence, "nonfinite-accepted")
            if not gaps or min(gaps) > rtol:
                off = (
                    f"differs by {min(gaps):.3g} (relative), more than rtol={rtol:g}"
                    if gaps
                    else "has no counterpart in a control"
                )
                sentence = f"the loss of rank {one.rank} at step {one.step} {off}; {why}"
                return failed(self.name, sentence, *_state_codes(case), table=case.table())
            compared += len(one.record.losses)
            worst = max(worst, min(gaps))
        if (gap := incomplete(self.name, case, {"compared": compared})) is not None:
            return gap
        if not compared and not case.timeline.resized:
            return inconclusive(self.name, "no loss was recorded, so none was compared", "probe-blind")
        sentence = (
            f"every loss is within rtol={rtol:g} of a control; the largest relative difference is {worst:.3g}; "
            f"{why}"
        )
        return passed(self.name, sentence, compared=compared, rtol=rtol, worst=worst)


def _unseen(comparison: Comparison) -> str | None:
    """The sentence on a lifetime of which no step shows the state; None if there is none."""
    if not comparison.thin or comparison.unseen is None:
        return None
    incarnation, rank = comparison.unseen
    return f"the state of rank {rank} was recorded at no step of incarnation {incarnation}; {REMEDY}"


def _until(case: Case, difference: Difference) -> str:
    """Up to when every component was right, if a difference is the first one."""
    since = last_whole(case, difference)
    return "until then" if since is None else f"up to step {since}, after which it was not recorded"


def _state_codes(case: Case) -> tuple[str, ...]:
    codes = tuple(code for code in diagnose(case).codes if code != "restarted-from-scratch")
    return codes or ("loss-diverged",)


def _first(difference: Difference) -> str:
    one = difference.execution
    if "steps" in difference.values:
        return f"rank {one.rank} took step {one.step}, beyond the last step of the reference"
    names = ", ".join(sorted(difference.values))
    return f"rank {one.rank} diverges from the reference at step {one.step}, in {names}"


def _as_json(difference: Difference) -> dict[str, Any]:
    one = difference.execution
    values = {name: list(pair) for name, pair in difference.values.items()}
    return {"step": one.step, "rank": one.rank, "incarnation": one.incarnation, "values": values}


def _executions(case: Case) -> Iterator[Execution]:
    for one in case.timeline.segments:
        if one.incarnation not in case.timeline.resized:
            for place in range(one.start, one.end):
                yield one.execution(place)


def _nonfinite(comparison: Comparison) -> Difference | None:
    for one in comparison.differences:
        if "loss" in one.values and not finite(one.values["loss"][0]) and finite(one.values["loss"][1]):
            return one
    return None


def _ranks_apart(case: Case, comparison: Comparison) -> Execution | None:
    """The first execution in which the ranks' models differ although the reference's are equal at that step."""
    assert case.reference is not None
    expected = [steps for rank, steps in case.reference.traces() if rank < case.reference.world_size]
    seen: set[tuple[int, int]] = set()
    for difference in comparison.differences:
        one = difference.execution
        if (one.incarnation, one.step) in seen:
            continue  # as of another rank
        seen.add((one.incarnation, one.step))
        due = [steps.columns.get("model") for steps in expected if 1 <= one.step <= len(steps)]
        equal = {column[one.step - 1] if column is not None else None for column in due}
        models = {
            other.steps.columns["model"][other.start + one.step - other.first]
            for other in case.timeline.segments
            if other.incarnation == one.incarnation and other.first <= one.step <= other.last
            and "model" in other.steps.columns
        }  # fmt: skip
        if len(equal) == 1 and len(models - {None}) > 1:
            return one
    return None


@check(
    *("state", "data", "checkpoint-unfaithful"),
    *("loss-diverged", "ranks-diverged", "nonfinite-accepted", "not-deterministic"),
)
def matches_reference(
    *, rtol: float | None = None, alpha: float = 0.01, shift: float = 0.25, band: float | None = None
) -> Check:
    """Every loss and component of every executed step, kept or rolled back, equals the reference to the bit.

    If the controls differ, what they agree in is compared to the bit, and the losses after each resume must lie
    within the spread of the controls (three or more; see `chaoskit.analysis.stats.prediction_interval`), with a total
    false-alarm probability of `alpha`. If that test could not detect a loss that is off by `shift` (0.25: a quarter),
    the verdict is inconclusive. With `rtol` each loss must instead lie within that relative difference of the nearest
    control. A job whose controls agree is always compared to the bit.

    With `--record-every`, state is compared at the steps that recorded it, losses, learning rates and batches at all;
    the sentence says at how many. A lifetime of which no step shows the state is inconclusive (`probe-blind`).

    Steps that another number of ranks trained, and later steps, cannot be equal to the bit: the loss of each, over
    all ranks, must lie within the relative difference `band` of the reference's. The user states the band; without it
    the verdict on such a run is inconclusive. Learning rates, options and the samples of each step are still compared
    exactly.

    Raises UsageError if rtol or band is not a number from 0, below 1, or if alpha or shift is not between 0 and 1.
    """
    for name, limit in (("rtol", rtol), ("band", band)):
        if limit is not None:
            check_number("matches_reference", name, limit, least=0, below=1)
    for name, value in (("alpha", alpha), ("shift", shift)):
        check_number("matches_reference", name, value, over=0, below=1)
    return MatchesReference(rtol, alpha, shift, band)
