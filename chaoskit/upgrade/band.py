"""`Band`: how far a loss may be off, relatively, once a checkpoint has crossed: as stated, or as was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.reference import Reference
from chaoskit.steps import furthest

#: How much farther than the uninterrupted runs a resumed one may be: two ways from one state are no farther from each
#: other than each is from the way that it left.
ROOM = 2.0


@dataclass(frozen=True)
class Band:
    """`value` is relative to the larger of two losses; `how` says where it is from, for people."""

    value: float
    how: str
    stated: bool = False

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.how})"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        return dict(self.__dict__)


def stated(value: float) -> Band:
    """A band that the user states; raises UsageError for what is none."""
    if not 0 <= value < 1:
        raise UsageError(f"--band: {value:g} is no number from 0, below 1")
    return Band(value, "as stated", stated=True)


def measure(one: Reference | None, other: Reference | None) -> Band:
    """Twice as far as two uninterrupted runs of the two sides lie apart at most, in the loss of one step and rank."""
    if one is None or other is None:
        return Band(0.0, "there are no two uninterrupted runs to measure one by")
    gap, step = max(_apart(one, other), default=(math.inf, 0))
    if gap == 0.0:
        return Band(0.0, "the losses of the two uninterrupted runs are equal to the bit")
    if math.isinf(gap):
        return Band(0.0, "the losses of the two uninterrupted runs cannot be compared")
    how = (
        f"{ROOM:g} times what the losses of the two uninterrupted runs lie apart at most, {gap:.3g} at step {step}"
    )
    return Band(ROOM * gap, how)


def _apart(one: Reference, other: Reference) -> Iterator[tuple[float, int]]:
    """How far the losses of each step lie apart, in each pair of controls, and the step."""
    for own in one.all_traces():
        traces = dict(own)
        for theirs in other.all_traces():
            for rank, steps in theirs:
                mine = traces[rank].losses if rank in traces else ()
                for step, (a, b) in enumerate(zip(mine, steps.losses, strict=False), start=1):
                    gap = furthest(a, b)
                    yield (math.inf if gap is None else gap), step
