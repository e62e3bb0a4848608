"""What became of a corrupted number, in words: where the run left the reference, by how much, how far it had spread
when anybody noticed, if anybody did."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from chaoskit.checks.check import Case
from chaoskit.checks.diagnosis import show_ranks
from chaoskit.checks.finding import WORDS
from chaoskit.course import Course
from chaoskit.life import COMPONENTS
from chaoskit.steps import LOSS, Step, values

#: So many steps are shown one by one, so many tensors are named.
ROWS = 50
NAMED = 3


def code_of(course: Course) -> str:
    """The code of a corruption that was not noticed, or too late."""
    return "nonfinite-accepted" if course.nonfinite else "corruption-accepted"


def explain(case: Case, course: Course) -> str:
    """One sentence, of several parts."""
    return "; ".join(parts(case, course))


def parts(case: Case, course: Course) -> Iterator[str]:
    """The parts of it: what was done, the departure, the first wrong loss, the spread, who noticed."""
    yield str(course.corruption)
    step = course.departure
    if step is None:
        yield "nothing that was recorded ever differed from the reference"
    elif course.parted:
        yield "the run had left the reference before"
    else:
        ranks = course.off[step]
        names = {name for own in ranks.values() for name in own}
        told = f"the run left the reference in step {step}, in {components(names)} of {show_ranks(sorted(ranks))}"
        yield told + _tensors(case, course, step)
        yield from _loss(case, course)
    if course.detection is not None:
        yield f"noticed: {course.detection}{_spread(course)}"
    else:
        count = max(0, course.last - course.corruption.step)
        yield f"nobody noticed in {count} more step{'' if count == 1 else 's'}{_spread(course)}"


def components(names: set[str]) -> str:
    """'model, optimizer, loss', in the order of tables."""
    order = {name: place for place, name in enumerate((*COMPONENTS, LOSS))}
    families = sorted({name.partition(".")[0] for name in names}, key=lambda name: order.get(name, 99))
    return ", ".join(WORDS.get(name, name) for name in families)


def table(course: Course) -> list[dict[str, Any]]:
    """What differed of which rank, step by step until somebody noticed, as evidence."""
    rows = sorted(course.until_noticed().items())[:ROWS]
    return [{"step": step, "off": {str(rank): list(own) for rank, own in ranks.items()}} for step, ranks in rows]


def facts(course: Course) -> dict[str, Any]:
    """The evidence of one corruption."""
    one = course.corruption
    seen = course.detection
    return {
        "fault": one.fault,
        "rank": one.rank,
        "step": one.step,
        "incarnation": one.incarnation,
        "where": one.where,
        "before": list(one.before),
        "after": list(one.after),
        "departure": course.departure,
        "detection": {"how": seen.how, "step": seen.step, "after": seen.after} if seen is not None else None,
        "recovery": course.recovery,
        "spread": table(course),
    }


def _spread(course: Course) -> str:
    """How far it had got by then."""
    rows = course.until_noticed()
    if not rows:
        return ""
    ranks = rows[max(rows)]
    names = {name for own in ranks.values() for name in own}
    whom = "every rank" if len(ranks) > 2 else show_ranks(sorted(ranks))
    return f", by when {components(names)} of {whom} {'was' if len(names) == 1 else 'were'} off"


def _loss(case: Case, course: Course) -> Iterator[str]:
    """The first loss that is not the reference's, and by how much."""
    assert case.reference is not None
    for step, ranks in sorted(course.off.items()):
        for rank in (rank for rank, names in ranks.items() if LOSS in names):
            own, wanted = recorded(case, course, rank, step), case.reference.step(rank, step)
            if own is not None and wanted is not None and (told := _against(own, wanted)) is not None:
                yield f"the first wrong loss is that of rank {rank} in step {step}: {told}"
                return


def _against(own: Step, wanted: Step) -> str | None:
    got, due = values(" ".join(own.losses)), values(" ".join(wanted.losses))
    if got is None or due is None or len(got) != len(due):
        return None
    a, b = next(((a, b) for a, b in zip(got, due, strict=True) if a != b), (0.0, 0.0))
    far = f", {abs(a - b) / abs(b):.2g} of it off" if math.isfinite(a) and b and math.isfinite(b) else ""
    return f"{a:.6g} against {b:.6g}{far}"


def recorded(case: Case, course: Course, rank: int, step: int) -> Step | None:
    """What a rank did in a true step of the life that was struck."""
    for one in case.timeline.segments:
        if (one.incarnation, one.rank) == (course.corruption.incarnation, rank) and one.first <= step <= one.last:
            return one.steps[one.start + step - one.first]
    return None


def _tensors(case: Case, course: Course, step: int) -> str:
    """Which tensors differ from the reference's, or from those of a rank that does not."""
    assert case.reference is not None
    ranks = course.off[step]
    lives = case.history.incarnations[course.corruption.incarnation].ranks
    n = step - (case.timeline.base(course.corruption.incarnation) or 0)
    found: dict[str, None] = {}
    for rank, names in ranks.items():
        for name in names:
            own = lives[rank].tensors.get(n, {}).get(name, {})
            right = [case.reference.tensors(rank, step).get(name, {})]
            right += [
                life.tensors.get(n, {}).get(name, {})
                for other, life in lives.items()
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
