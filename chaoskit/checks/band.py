"""The losses of steps that were trained with another number of ranks, or after such steps, beside the reference's.

They cannot be equal to the bit: sums are taken in another order, and dropout draws other masks. So they are held to a
band, a relative difference that the user states. It is a statement of what is tolerable and not a measurement: nothing
here says how likely a loss within it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from chaoskit.alignment import show_positions
from chaoskit.checks.check import Case
from chaoskit.checks.finding import many_ranks
from chaoskit.steps import apart
from chaoskit.verdict import Verdict, failed, inconclusive, passed
from chaoskit.whole import Whole


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
        sentence = f"the models of the ranks, equal in the reference, differ at step {step}, incarnation {inc}"
        return failed(name, sentence, "ranks-diverged", table=case.table())
    seen = list(_losses(case))
    bad = next((one for one in seen if not math.isfinite(one.loss) and math.isfinite(one.wanted)), None)
    if bad is not None:
        sentence = f"the ranks trained on a loss that is not a number at step {bad.step}"
        return failed(name, sentence, "nonfinite-accepted", loss=str(bad.loss))
    if band is None:
        sentence = (
            f"{where}: there sums are taken in another order, so equality to the bit cannot be judged; give band=..., "
            "the relative difference of a step's loss that you allow (0.02: two percent)"
        )
        return inconclusive(name, sentence, "not-deterministic")
    if not seen:
        return inconclusive(name, f"{where}, and no loss of these steps was seen on all ranks", "probe-blind")
    worst = max(seen, key=lambda one: one.gap)
    evidence = {"band": band, "steps": len(seen), "worst": asdict(worst), "sizes": _sizes(case)}
    outside = [one for one in seen if one.gap > band]
    if outside:
        first = outside[0]
        more = f"; {len(outside)} of {len(seen)} such steps are outside" if len(outside) > 1 else ""
        sentence = (
            f"{where}, and the loss of step {first.step} is {first.loss:.6g} against {first.wanted:.6g}, "
            f"{first.gap:.3g} off, outside the stated band={band:g}{more}"
        )
        shown = [asdict(one) for one in outside[:20]]
        return failed(name, sentence, "loss-diverged", outside=shown, table=case.table(), **evidence)
    far = f"the worst {worst.gap:.3g} off, at step {worst.step}"
    sentence = f"{where}: their losses are within the stated band={band:g}, {far}"
    return passed(name, sentence, **evidence)


def _where(case: Case) -> str:
    """'steps 21…60 were trained with 1 rank, or after that (the reference has 2)'."""
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
    return f"steps {span} were trained with {many_ranks(*other)}, or after that (the reference has {usual})"


def _sizes(case: Case) -> dict[str, int]:
    return {str(index): case.history.incarnations[index].world_size for index in case.timeline.resized}


def _losses(case: Case) -> Iterator[Banded]:
    """Every step, kept or rolled back, that was seen on all ranks and that the controls took as well."""
    assert case.reference is not None
    controls = [_whole(case, number).losses for number in range(len(case.reference.controls))]
    for index, whole in case.timeline.resized.items():
        base = case.timeline.base(index)
        for n, loss in whole.losses.items() if base is not None else ():
            step = (base or 0) + n
            wanted = [own[step] for own in controls if step in own]
            if wanted:
                nearest = min(wanted, key=lambda other: apart(loss, other))
                yield Banded(index, step, loss, nearest, apart(loss, nearest))


def _whole(case: Case, control: int) -> Whole:
    assert case.reference is not None
    if control == 0:
        return case.reference.whole
    lives = case.reference.controls[control].incarnations[0].ranks
    return Whole(case.reference.world_size, {rank: life.steps for rank, life in lives.items()})


def _replicas_apart(case: Case) -> tuple[int, int] | None:
    """The first step of a resized incarnation in which the ranks' models differ, where they do not in the reference."""
    assert case.reference is not None
    if "model" in case.reference.whole.local:
        return None
    for index, whole in case.timeline.resized.items():
        seen: dict[int, str] = {}
        for steps in whole.ranks.values():
            for n, model in zip(steps.numbers, steps.columns.get("model", ()), strict=False):
                if model is not None and seen.setdefault(n, model) != model:
                    return index, (case.timeline.base(index) or 0) + n
    return None
