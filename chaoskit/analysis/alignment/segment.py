"""`Segment`: a stretch of steps that one rank executed, under their true numbers; `Execution`: one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chaoskit.analysis.record.steps import Step, Steps
from chaoskit.analysis.record.thin_steps import may_lack


@dataclass(frozen=True)
class Execution:
    """True step `step` of `rank`, as incarnation `incarnation` executed it."""

    rank: int
    step: int
    incarnation: int
    record: Step


@dataclass(frozen=True)
class Segment:
    """Executed steps of one rank that follow one another: the places from `start` to `end` (exclusive) of `steps`, of
    which the first is true step `first`."""

    rank: int
    incarnation: int
    steps: Steps
    start: int
    end: int
    first: int

    @property
    def last(self) -> int:
        """The true number of the last step."""
        return self.first + self.end - self.start - 1

    def true(self, place: int) -> int:
        """The true number of the step at a place."""
        return self.first + place - self.start

    def execution(self, place: int) -> Execution:
        """The step at a place."""
        return Execution(self.rank, self.true(place), self.incarnation, self.steps[place])


def last_known(
    segments: Iterable[Segment], incarnation: int, rank: int, step: int, *, names: Iterable[str]
) -> int | None:
    """The last true step before one, in the same lifetime, whose state was recorded, where that of the steps in between
    was not, and one of these components is part of it; 0 if there is none. None where nothing was left out."""
    for one in segments:
        if (one.incarnation, one.rank) == (incarnation, rank) and one.first <= step <= one.last:
            at = place = one.start + step - one.first
            while place > one.start and one.steps.is_thin(place - 1):
                place -= 1
            if place == at or not any(may_lack(name, one.steps) for name in names):
                return None
            return one.true(place - 1) if place > one.start else 0
    return None


def without(span: tuple[int, int], others: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of a half-open range that none of the others covers, ascending."""
    parts = [span]
    for first, end in others:
        parts = [part for a, b in parts for part in ((a, min(b, first)), (max(a, end), b)) if part[0] < part[1]]
    return parts
