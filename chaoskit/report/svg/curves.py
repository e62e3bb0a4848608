"""`Curve`: the losses of a run, or of its reference, by global step, and the points to draw of a long curve.

The loss of a step is the sum over the backward passes of a rank, then the mean over the ranks. A thinned curve keeps
the first, last, smallest and largest loss of each pixel column, so that no spike is lost, and all requested steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chaoskit.analysis.alignment.segment import Segment
from chaoskit.analysis.case import Case
from chaoskit.analysis.record.steps import values

#: Consecutive steps of one rank: the global number of the first, and the losses as recorded.
Stretch = tuple[int, Sequence[str]]


@dataclass(frozen=True)
class Curve:
    """For each of `steps` the mean, the smallest and the largest loss of the ranks (`means`, `lows`, `highs`).

    A mean may be infinite or NaN. A step that only some of the ranks took has no point, unless a loss is not finite.
    `scalar` is False if some loss is not a scalar. `incarnation` is the lifetime of a branch.
    """

    steps: Sequence[int] = ()
    means: Sequence[float] = ()
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()
    scalar: bool = True
    incarnation: int | None = None

    @property
    def ranks_differ(self) -> bool:
        """Whether the ranks had different losses."""
        return any(low != high for low, high in zip(self.lows, self.highs, strict=True) if low == low)

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield index ranges (end exclusive) of consecutive steps with finite losses."""
        start = None
        for place, (step, mean) in enumerate(zip(self.steps, self.means, strict=True)):
            if start is not None and (not math.isfinite(mean) or step != self.steps[place - 1] + 1):
                yield start, place
                start = None
            if start is None and math.isfinite(mean):
                start = place
        if start is not None:
            yield start, len(self.steps)

    def nonfinite(self) -> Iterator[tuple[int, int, str]]:
        """Yield ranges of steps (end inclusive) with a loss that is 'NaN' or 'infinite', and which of the two."""
        open_: tuple[int, int, str] | None = None
        for step, mean in zip(self.steps, self.means, strict=True):
            if math.isfinite(mean):
                continue
            what = "NaN" if math.isnan(mean) else "infinite"
            if open_ is not None and (open_[1] + 1, open_[2]) == (step, what):
                open_ = (open_[0], step, what)
                continue
            if open_ is not None:
                yield open_
            open_ = (step, step, what)
        if open_ is not None:
            yield open_

    def finite(self) -> Iterator[float]:
        """Yield every finite value, for the axis."""
        for each in (self.lows, self.highs):
            yield from filter(math.isfinite, each)

    def thinned(self, column: Callable[[int], int], keep: Collection[int] = ()) -> Iterator[list[int]]:
        """Yield for each piece the indices to draw; `column` maps a step to a pixel column, `keep` are extra steps."""
        for start, end in self.pieces():
            yield [start + at for at in thin(self.steps[start:end], self.means[start:end], column, keep)]


def thin(
    steps: Sequence[int], means: Sequence[float], column: Callable[[int], int], keep: Collection[int] = ()
) -> list[int]:
    """Return the indices to draw, ascending: the first, last, smallest and largest of each column, and `keep`."""
    kept: set[int] = set()
    start = 0
    for place in range(1, len(steps) + 1):
        if place < len(steps) and column(steps[place]) == column(steps[start]):
            continue
        own = range(start, place)
        kept.update((start, place - 1, min(own, key=means.__getitem__), max(own, key=means.__getitem__)))
        start = place
    kept.update(place for place, step in enumerate(steps) if step in keep)
    return sorted(kept)


@dataclass(frozen=True)
class Curves:
    """The reference, the run without rolled-back steps, and the rolled-back branches, one for each lifetime. `telling`
    are the steps at which a lifetime first differs from the reference."""

    reference: Curve | None
    kept: Curve
    branches: tuple[Curve, ...] = ()
    telling: frozenset[int] = frozenset()

    @property
    def all(self) -> Iterator[Curve]:
        """Yield all curves."""
        yield from (self.reference,) if self.reference is not None else ()
        yield self.kept
        yield from self.branches


def curves(case: Case) -> Curves:
    """Compute the curves of a run."""
    timeline = case.timeline
    ranks = {
        inc: len({one.rank for one in timeline.segments if one.incarnation == inc}) for inc in timeline.starts
    }
    kept = _Gathered()
    dropped: dict[int, _Gathered] = {}
    left: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for one, start, end in timeline.effective:
        kept.add(one.true(start), one.steps.losses[start:end], ranks[one.incarnation])
        left.setdefault(_name(one), []).append((start, end))
    for one in timeline.segments:
        for start, end in _others(one, left.get(_name(one), [])):
            branch = dropped.setdefault(one.incarnation, _Gathered())
            branch.add(one.true(start), one.steps.losses[start:end], ranks[one.incarnation])
    branches = tuple(gathered.curve(incarnation) for incarnation, gathered in dropped.items())
    return Curves(
        _of_reference(case),
        kept.curve(),
        tuple(branch for branch in branches if branch.steps),
        frozenset(case.comparison.first.values()),
    )


def _of_reference(case: Case) -> Curve | None:
    if case.reference is None:
        return None
    gathered = _Gathered()
    for _, steps in case.reference.traces():
        gathered.add(1, steps.losses, case.reference.world_size)
    return gathered.curve()


def _name(one: Segment) -> tuple[int, int, int]:
    return one.incarnation, one.rank, one.start


def _others(one: Segment, kept: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the index ranges (end exclusive) of a segment outside the kept ranges."""
    at = one.start
    for start, end in sorted(kept):
        if at < start:
            yield at, start
        at = max(at, end)
    if at < one.end:
        yield at, one.end


@dataclass
class _Gathered:
    """Collects the losses of all ranks by step, and how many ranks should have taken each step."""

    losses: dict[int, list[float]] = field(default_factory=dict)
    due: dict[int, int] = field(default_factory=dict)
    scalar: bool = True

    def add(self, first: int, texts: Sequence[str], ranks: int) -> None:
        for step, text in enumerate(texts, start=first):
            if not text:
                continue
            value = _total(text)
            if value is None:
                self.scalar = False
                continue
            self.losses.setdefault(step, []).append(value)
            self.due[step] = ranks

    def curve(self, incarnation: int | None = None) -> Curve:
        points = [
            (step, _mean(own), min(own), max(own))
            for step, own in sorted(self.losses.items())
            # The mean over fewer ranks is not comparable: it would look like a difference.
            if len(own) >= self.due[step] or not all(map(math.isfinite, own))
        ]
        steps, means, lows, highs = zip(*points, strict=True) if points else ((), (), (), ())
        return Curve(steps, means, lows, highs, self.scalar, incarnation)


def _mean(own: Sequence[float]) -> float:
    total = sum(own)
    # The sum may overflow although each loss is finite.
    return total / len(own) if math.isfinite(total) or not all(map(math.isfinite, own)) else max(own, key=abs)


def _total(text: str) -> float | None:
    """Return the sum of a step's losses; None if one of them is not a scalar."""
    if " " not in text:
        try:
            return float.fromhex(text)
        except (ValueError, OverflowError):
            return None
    own = values(text)
    return None if own is None else sum(own)
