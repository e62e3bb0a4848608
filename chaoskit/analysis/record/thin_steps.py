"""Thin steps: those of which, with `--record-every`, only a part was recorded; what was left out equals nothing and
differs from nothing."""

from __future__ import annotations

from collections.abc import Iterator

from chaoskit.analysis.record.column import is_constant, places_apart
from chaoskit.analysis.record.steps import LOSS, Steps
from chaoskit.protocol.recording import AT_EVERY_STEP


def may_lack(name: str, steps: Steps) -> bool:
    """Whether a component, or the losses, is left out of some of these steps."""
    return bool(steps.thin) and name != LOSS and name not in AT_EVERY_STEP


def lacks(name: str, steps: Steps, place: int) -> bool:
    """Whether the component was left out of the step at that place, so that nothing is known of it."""
    if not (may_lack(name, steps) and steps.is_thin(place)):
        return False
    column = steps.column(name)
    return column is None or column[place] is None


def places_known_apart(
    name: str, one: Steps, other: Steps, *, start: int = 0, at: int = 0, count: int
) -> Iterator[int]:
    """The places at which a component, or the losses, of `count` steps of two lifetimes differ, counted from `start` in
    the one and from `at` in the other, as far as both are known. A lifetime that never has it has None in each step."""
    a, b = (
        column[first : first + count] if (column := steps.column(name)) is not None else [None] * count
        for steps, first in ((one, start), (other, at))
    )
    if not (may_lack(name, one) or may_lack(name, other)):
        yield from places_apart(a, b)
        return
    for place, (x, y) in enumerate(zip(a, b, strict=True)):
        unknown = (x is None and one.is_thin(start + place)) or (y is None and other.is_thin(at + place))
        if x != y and not unknown:
            yield place


def rests(name: str, steps: Steps) -> bool:
    """Whether a component was the same in all steps in which it is known, and there are such."""
    column = steps.column(name)
    if column is None or not may_lack(name, steps):
        return column is not None and is_constant(column)
    known = (value for value, thin in zip(column, steps.thin, strict=True) if value is not None or not thin)
    return len(set(known)) == 1
