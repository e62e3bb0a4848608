"""`LossTolerance`: the relative difference of a loss that is tolerated after a checkpoint changed sides: stated or
measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.record.steps import furthest
from chaoskit.analysis.reference.reference import Reference
from chaoskit.errors import UsageError

#: The tolerance is this multiple of the largest difference between the uninterrupted runs: a resumed run may differ
#: from each of the two by as much as they differ from each other.
ROOM = 2.0


@dataclass(frozen=True)
class LossTolerance:
    """`value` is relative to the larger of two losses; `how` explains its origin."""

    value: float
    how: str
    stated: bool = False

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.how})"

    def to_json(self) -> dict[str, Any]:
        """Return every field as plain JSON."""
        return dict(self.__dict__)


def stated(value: float) -> LossTolerance:
    """Make the tolerance that the user states; raises UsageError for an invalid value."""
    if not 0 <= value < 1:
        raise UsageError(f"--band: {value:g} is out of range: give a number from 0 to below 1")
    return LossTolerance(value, "set by --band", stated=True)


def measure(one: Reference | None, other: Reference | None) -> LossTolerance:
    """Measure the tolerance: `ROOM` times the largest difference between the losses of the two uninterrupted runs."""
    if one is None or other is None:
        return LossTolerance(0.0, "not measured, because an uninterrupted run is missing")
    gap, step = max(_apart(one, other), default=(math.inf, 0))
    if gap == 0.0:
        return LossTolerance(0.0, "the losses of the two uninterrupted runs are bitwise equal")
    if math.isinf(gap):
        return LossTolerance(0.0, "the losses of the two uninterrupted runs cannot be compared")
    how = f"{ROOM:g} times the largest difference between the two uninterrupted runs, {gap:.3g} at step {step}"
    return LossTolerance(ROOM * gap, how)


def _apart(one: Reference, other: Reference) -> Iterator[tuple[float, int]]:
    """Yield the difference of the losses of each step, for each pair of controls, with the step."""
    for own in one.all_traces():
        traces = dict(own)
        for theirs in other.all_traces():
            for rank, steps in theirs:
                mine = traces[rank].losses if rank in traces else ()
                for step, (a, b) in enumerate(zip(mine, steps.losses, strict=False), start=1):
                    gap = furthest(a, b)
                    yield (math.inf if gap is None else gap), step
