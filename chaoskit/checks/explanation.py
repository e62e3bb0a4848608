"""Describe the effect of a corrupted number: where the run diverged from the reference, by how much, how far that
spread, and whether the job detected it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.corruption.propagation import Propagation
from chaoskit.analysis.finding import WORDS, show_ranks
from chaoskit.analysis.record.rank_lifetime import COMPONENTS
from chaoskit.analysis.record.steps import LOSS, Step, values

#: So many steps are shown one by one, so many tensors are named.
ROWS = 50
NAMED = 3


def code_of(propagation: Propagation) -> str:
    """Return the code of a corruption that the job did not detect in time."""
    return "nonfinite-accepted" if propagation.nonfinite else "corruption-accepted"


def explain(case: Case, propagation: Propagation) -> str:
    """Return one sentence made of `parts`."""
    return "; ".join(parts(case, propagation))


def parts(case: Case, propagation: Propagation) -> Iterator[str]:
    """Yield the parts: the corruption, the first difference, the first wrong loss, the spread, the detection."""
    yield str(propagation.corruption)
    step = propagation.departure
    if step is None:
        yield "no recorded value ever differed from the reference"
    elif propagation.diverged_before:
        yield "the run had already diverged from the reference"
    else:
        ranks = propagation.off[step]
        names = {name for own in ranks.values() for name in own}
        text = (
            f"the run diverged from the reference in step {step}, in {components(names)} of "
            f"{show_ranks(sorted(ranks))}"
        )
        yield text + _tensors(case, propagation, step)
        yield from _loss(case, propagation)
    if propagation.detection is not None:
        yield f"detected: {propagation.detection}{_spread(propagation)}"
    else:
        count = max(0, propagation.last - propagation.corruption.step)
        yield f"not detected in {count} more step{'' if count == 1 else 's'}{_spread(propagation)}"


def components(names: set[str]) -> str:
    """'model, optimizer, loss', in the order of tables."""
    order = {name: place for place, name in enumerate((*COMPONENTS, LOSS))}
    families = sorted({name.partition(".")[0] for name in names}, key=lambda name: order.get(name, 99))
    return ", ".join(WORDS.get(name, name) for name in families)


def table(propagation: Propagation) -> list[dict[str, Any]]:
    """Return what differed on which rank, step by step until the detection, as evidence."""
    rows = sorted(propagation.until_noticed().items())[:ROWS]
    return [{"step": step, "off": {str(rank): list(own) for rank, own in ranks.items()}} for step, ranks in rows]


def facts(propagation: Propagation) -> dict[str, Any]:
    """The evidence of one corruption."""
    one = propagation.corruption
    seen = propagation.detection
    return {
        "fault": one.fault,
        "rank": one.rank,
        "step": one.step,
        "incarnation": one.incarnation,
        "where": one.where,
        "before": list(one.before),
        "after": list(one.after),
        "departure": propagation.departure,
        "detection": {"how": seen.how, "step": seen.step, "after": seen.after} if seen is not None else None,
        "recovery": propagation.recovery,
        "spread": table(propagation),
    }


def _spread(propagation: Propagation) -> str:
    """Return how far the difference had spread by then."""
    rows = propagation.until_noticed()
    if not rows:
        return ""
    ranks = rows[max(rows)]
    names = {name for own in ranks.values() for name in own}
    whom = "every rank" if len(ranks) > 2 else show_ranks(sorted(ranks))
    return f"; by then {components(names)} of {whom} differed from the reference"


def _loss(case: Case, propagation: Propagation) -> Iterator[str]:
    """The first loss that is not the reference's, and by how much."""
    assert case.reference is not None
    for step, ranks in sorted(propagation.off.items()):
        for rank in (rank for rank, names in ranks.items() if LOSS in names):
            own, wanted = recorded(case, propagation, rank, step), case.reference.step(rank, step)
            if own is not None and wanted is not None and (text := _against(own, wanted)) is not None:
                yield f"the first wrong loss is that of rank {rank} in step {step}: {text}"
                return


def _against(own: Step, wanted: Step) -> str | None:
    got, due = values(" ".join(own.losses)), values(" ".join(wanted.losses))
    if got is None or due is None or len(got) != len(due):
        return None
    a, b = next(((a, b) for a, b in zip(got, due, strict=True) if a != b), (0.0, 0.0))
    far = (
        f", a relative difference of {abs(a - b) / abs(b):.2g}"
        if math.isfinite(a) and b and math.isfinite(b)
        else ""
    )
    return f"{a:.6g} instead of {b:.6g}{far}"


def recorded(case: Case, propagation: Propagation, rank: int, step: int) -> Step | None:
    """What a rank did in a true step of the lifetime that was struck."""
    for one in case.timeline.segments:
        if (one.incarnation, one.rank) == (
            propagation.corruption.incarnation,
            rank,
        ) and one.first <= step <= one.last:
            return one.steps[one.start + step - one.first]
    return None


def _tensors(case: Case, propagation: Propagation, step: int) -> str:
    """Which tensors differ from the reference's, or from those of a rank that does not."""
    assert case.reference is not None
    ranks = propagation.off[step]
    lifetimes = case.history.incarnations[propagation.corruption.incarnation].ranks
    n = step - (case.timeline.base(propagation.corruption.incarnation) or 0)
    found: dict[str, None] = {}
    for rank, names in ranks.items():
        for name in names:
            own = lifetimes[rank].tensors.get(n, {}).get(name, {})
            right = [case.reference.tensors(rank, step).get(name, {})]
            right += [
                lifetime.tensors.get(n, {}).get(name, {})
                for other, lifetime in lifetimes.items()
                if name not in ranks.get(other, ())
            ]
            found.update(dict.fromkeys(apart(own, next((one for one in right if one), {}))))
    return named(list(found))


def apart(own: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The names of the tensors in which the two differ."""
    return [name for name, value in own.items() if other.get(name, value) != value]


def named(tensors: list[str]) -> str:
    """' (head.weight)', ' (head.weight and 11 more)'; nothing for none."""
    if not tensors:
        return ""
    more = f" and {len(tensors) - NAMED} more" if len(tensors) > NAMED else ""
    return f" ({', '.join(tensors[:NAMED])}{more})"
