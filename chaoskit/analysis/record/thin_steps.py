"""Thin steps: those of which, with `--record-every`, only a part was recorded; what was left out equals nothing and
differs from nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from operator import not_

from chaoskit.analysis.record.column import apart_among, is_constant, values_apart
from chaoskit.analysis.record.steps import LOSS, Steps
from chaoskit.protocol.recording import AT_EVERY_STEP


def may_lack(name: str, steps: Steps) -> bool:
    """Whether a component, or the losses, is left out of some of these steps."""
    return bool(steps.thin) and name != LOSS and name not in AT_EVERY_STEP


def whole_places(
    one: Steps, other: Steps | None = None, *, start: int = 0, at: int = 0, count: int
) -> Iterator[int]:
    """Those of `count` places at which the step is not thin: neither in the one, counted from `start`, nor in the
    other, from `at`."""
    thin = [
        steps.thin[first : first + count] for steps, first in ((one, start), (other, at)) if steps and steps.thin
    ]
    if not thin:
        return iter(range(count))
    marks = map(any, zip(*thin, strict=True)) if len(thin) > 1 else iter(thin[0])
    return compress(range(count), map(not_, marks))


def values_known_apart(
    name: str, one: Steps, other: Steps, *, start: int = 0, at: int = 0, count: int
) -> Iterator[tuple[int, str | None, str | None]]:
    """The places at which a component, or the losses, of `count` steps of two lifetimes differ, counted from `start` in
    the one and from `at` in the other, as far as both were to record it, each with both values. A lifetime that never
    has it has None in each step."""
    a, b = (
        column[first : first + count] if (column := steps.column(name)) is not None else [None] * count
        for steps, first in ((one, start), (other, at))
    )
    if may_lack(name, one) or may_lack(name, other):
        known = whole_places(one, other, start=start, at=at, count=count)
        yield from ((place, a[place], b[place]) for place in apart_among(a, b, known))
    else:
        yield from values_apart(a, b)


def places_known_apart(
    name: str, one: Steps, other: Steps, *, start: int = 0, at: int = 0, count: int
) -> Iterator[int]:
    """These places alone."""
    return (place for place, _, _ in values_known_apart(name, one, other, start=start, at=at, count=count))


def rests(name: str, steps: Steps) -> bool:
    """Whether a component was the same in all steps in which it is known, and there are such."""
    column = steps.column(name)
    if column is None or not may_lack(name, steps):
        return column is not None and is_constant(column)
    return len({value for value, thin in zip(column, steps.thin, strict=True) if not thin}) == 1
