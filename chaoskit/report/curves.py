"""`Curve`: the losses of a run, or of its reference, over the true steps; and what of a long one has to be drawn.

The loss of a step is that of which the gradient was taken: the sum over the backward passes of a rank, and the mean
over the ranks. Thinned to the columns of a picture, a curve keeps the first, the last, the least and the largest loss
of each column, so that no spike goes missing, and every point that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chaoskit.checks.check import Case
from chaoskit.segment import Segment
from chaoskit.steps import values

#: One stretch of steps of one rank: the true number of the first, and the losses as the record has them.
Stretch = tuple[int, Sequence[str]]


@dataclass(frozen=True)
class Curve:
    """Point by point, in the order of `steps`: the mean over the ranks, the least and the largest (`lows`, `highs`).

    A mean may be infinite or no number. Where only some of the ranks took a step it has no point, but for such a loss.
    `scalar` is False where some loss was no number at all (a vector, say). `incarnation` is that of a branch.
    """

    steps: Sequence[int] = ()
    means: Sequence[float] = ()
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()
    scalar: bool = True
    incarnation: int | None = None

    @property
    def ranks_differ(self) -> bool:
        """Whether the ranks had losses of their own."""
        return any(low != high for low, high in zip(self.lows, self.highs, strict=True) if low == low)

    def pieces(self) -> Iterator[tuple[int, int]]:
        """The places from and to (exclusive) of points that follow one another and are finite."""
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
        """The steps from and to (inclusive) whose loss is not finite, and what it is: 'NaN' or 'infinite'."""
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
        """Every value of it that an axis has to hold."""
        for each in (self.lows, self.highs):
            yield from filter(math.isfinite, each)

    def thinned(self, column: Callable[[int], int], keep: Collection[int] = ()) -> Iterator[list[int]]:
        """The places to draw of each piece, where steps fall into columns; those of the steps to `keep` among them."""
        for start, end in self.pieces():
            yield [start + at for at in thin(self.steps[start:end], self.means[start:end], column, keep)]


def thin(
    steps: Sequence[int], means: Sequence[float], column: Callable[[int], int], keep: Collection[int] = ()
) -> list[int]:
    """The places to draw, ascending: of each column the first, the last, the least and the largest, and `keep`."""
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
    """The reference, what the run kept, and the branches that were rolled back, one a life. `telling` are the steps at
    which something of a life first differs from the reference."""

    reference: Curve | None
    kept: Curve
    branches: tuple[Curve, ...] = ()
    telling: frozenset[int] = frozenset()

    @property
    def all(self) -> Iterator[Curve]:
        """Every one that there is."""
        yield from (self.reference,) if self.reference is not None else ()
        yield self.kept
        yield from self.branches


def curves(case: Case) -> Curves:
    """The curves of a run."""
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
    """The places from and to (exclusive) of a segment that are in none of the kept ranges."""
    at = one.start
    for start, end in sorted(kept):
        if at < start:
            yield at, start
        at = max(at, end)
    if at < one.end:
        yield at, one.end


@dataclass
class _Gathered:
    """The losses of all ranks by step, while they are put together; how many ranks should have taken it."""

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
            # The mean over fewer ranks is another loss: it would look like a difference.
            if len(own) >= self.due[step] or not all(map(math.isfinite, own))
        ]
        steps, means, lows, highs = zip(*points, strict=True) if points else ((), (), (), ())
        return Curve(steps, means, lows, highs, self.scalar, incarnation)


def _mean(own: Sequence[float]) -> float:
    total = sum(own)
    # The sum may be too large for a number although no loss is.
    return total / len(own) if math.isfinite(total) or not all(map(math.isfinite, own)) else max(own, key=abs)


def _total(text: str) -> float | None:
    """What a step's losses come to; None where one of them is no scalar."""
    if " " not in text:
        try:
            return float.fromhex(text)
        except (ValueError, OverflowError):
            return None
    own = values(text)
    return None if own is None else sum(own)
