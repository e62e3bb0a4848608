"""Compare the losses of steps that another number of ranks trained, and of steps after those, with the reference.

They cannot be equal to the bit: sums are taken in a different order, and dropout draws different masks. So each loss
must lie within a band, a relative difference that the user states. The band says what the user tolerates; it is not a
measurement and says nothing about how likely a loss within it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from chaoskit.analysis.alignment.alignment import show_positions
from chaoskit.analysis.alignment.global_steps import GlobalSteps
from chaoskit.analysis.case import Case
from chaoskit.analysis.finding import many_ranks
from chaoskit.analysis.record.steps import apart
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class Banded:
    """The loss of true step `step`, over all ranks of an incarnation, and how far it is from the nearest control's,
    relative to the larger of the two."""

    incarnation: int
    step: int
    loss: float
    wanted: float
    gap: float


def within(name: str, case: Case, band: float | None) -> Verdict:
    """The verdict of the check `name` on the resized incarnations of a run."""
    assert case.reference is not None
    where = _where(case)
    if (apart := _replicas_apart(case)) is not None:
        inc, step = apart
        sentence = f"the ranks' models differ at step {step} of incarnation {inc}; in the reference they are equal"
        return failed(name, sentence, "ranks-diverged", table=case.table())
    seen = list(_losses(case))
    bad = next((one for one in seen if not math.isfinite(one.loss) and math.isfinite(one.wanted)), None)
    if bad is not None:
        sentence = f"at step {bad.step} the ranks trained on a loss that is not finite"
        return failed(name, sentence, "nonfinite-accepted", loss=str(bad.loss))
    if band is None:
        sentence = (
            f"{where}: there the ranks add up in a different order, so the losses cannot be equal to the bit; set "
            "band=... to the relative difference of a step's loss that you allow (0.02: two percent)"
        )
        return inconclusive(name, sentence, "not-deterministic")
    if not seen:
        return inconclusive(name, f"{where}; no loss of these steps was recorded on all ranks", "probe-blind")
    worst = max(seen, key=lambda one: one.gap)
    evidence = {"band": band, "steps": len(seen), "worst": asdict(worst), "sizes": _sizes(case)}
    outside = [one for one in seen if one.gap > band]
    if outside:
        first = outside[0]
        more = f"; {len(outside)} of {len(seen)} such steps exceed it" if len(outside) > 1 else ""
        sentence = (
            f"{where}; the loss of step {first.step} is {first.loss:.6g} instead of {first.wanted:.6g}: the relative "
            f"difference {first.gap:.3g} exceeds band={band:g}{more}"
        )
        shown = [asdict(one) for one in outside[:20]]
        return failed(name, sentence, "loss-diverged", outside=shown, table=case.table(), **evidence)
    far = f"the largest relative difference is {worst.gap:.3g}, at step {worst.step}"
    sentence = f"{where}; their losses are within band={band:g} of the reference's: {far}"
    return passed(name, sentence, **evidence)


def _where(case: Case) -> str:
    """'steps 21…60 were trained with 1 rank or follow such steps (the reference has 2)'."""
    assert case.reference is not None
    steps = {
        one.true(place)
        for one in case.timeline.segments
        if one.incarnation in case.timeline.resized
        for place in (one.start, one.end - 1)
    }
    span = show_positions(range(min(steps), max(steps) + 1)) if steps else "some"
    usual = case.reference.world_size
    other = sorted({size for size in _sizes(case).values() if size != usual})
    return f"steps {span} were trained with {many_ranks(*other)} or follow such steps (the reference has {usual})"


def _sizes(case: Case) -> dict[str, int]:
    return {str(index): case.history.incarnations[index].world_size for index in case.timeline.resized}


def _losses(case: Case) -> Iterator[Banded]:
    """Yield every step, kept or rolled back, that all ranks recorded and that the controls took as well."""
    assert case.reference is not None
    controls = [_global_steps(case, number).losses for number in range(len(case.reference.controls))]
    for index, global_steps in case.timeline.resized.items():
        base = case.timeline.base(index)
        for n, loss in global_steps.losses.items() if base is not None else ():
            step = (base or 0) + n
            wanted = [own[step] for own in controls if step in own]
            if wanted:
                nearest = min(wanted, key=lambda other: apart(loss, other))
                yield Banded(index, step, loss, nearest, apart(loss, nearest))


def _global_steps(case: Case, control: int) -> GlobalSteps:
    assert case.reference is not None
    if control == 0:
        return case.reference.global_steps
    lifetimes = case.reference.controls[control].incarnations[0].ranks
    return GlobalSteps(case.reference.world_size, {rank: lifetime.steps for rank, lifetime in lifetimes.items()})


def _replicas_apart(case: Case) -> tuple[int, int] | None:
    """Return the first step of a resized incarnation in which the ranks' models differ although the reference's are
    equal."""
    assert case.reference is not None
    if "model" in case.reference.global_steps.local:
        return None
    for index, global_steps in case.timeline.resized.items():
        seen: dict[int, str] = {}
        for steps in global_steps.ranks.values():
            for n, model in zip(steps.numbers, steps.columns.get("model", ()), strict=False):
                if model is not None and seen.setdefault(n, model) != model:
                    return index, (case.timeline.base(index) or 0) + n
    return None
