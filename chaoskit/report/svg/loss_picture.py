"""`LossPicture`: the layout of the loss by step: curves, faults, checkpoints and resumes.

`templates/losses.svg.j2` draws it; the lanes below it have the same axis.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaoskit.analysis.case import Case
from chaoskit.checks.explanation import components
from chaoskit.report.svg.axes import Scale, counted, scale_of, show, whole_ticks
from chaoskit.report.svg.checkpoint_marks import CheckpointMark, ReturnMark, marks, returns
from chaoskit.report.svg.curves import Curve, Curves, curves
from chaoskit.report.svg.fault_windows import FaultWindow, windows

#: In pixels: the width of a picture, and the ends of its axis.
WIDTH, LEFT, RIGHT = 960, 72, 944
#: In pixels: the height of the plot, of a row of names above it, of a row of checkpoints below it.
PLOT, ROW, STRIP = 300, 18, 15
#: Average width of a letter in pixels.
LETTER = 6.6
#: Longer names are shortened; the tooltip has the full name.
LONGEST = 44


@dataclass(frozen=True)
class SpreadBand:
    """A fault window: a shaded part of the axis with its name above it (`anchor`: start or end)."""

    window: FaultWindow
    x: float
    width: float
    name: str
    name_x: float
    name_y: float
    anchor: str


@dataclass(frozen=True)
class LossLine:
    """A curve as SVG path data."""

    path: str
    curve: Curve


@dataclass(frozen=True)
class Glyph:
    """A checkpoint below the plot; checkpoints of one position form a column."""

    mark: CheckpointMark
    x: float
    y: float

    @property
    def look(self) -> str:
        """Its classes in the style sheet."""
        harmed = self.mark.standing == "resumed" and self.mark.harm
        return "resumed harmed" if harmed else self.mark.standing


@dataclass(frozen=True)
class Arrow:
    """An arrow from the reached position back to the one that the job resumed from."""

    back: ReturnMark
    path: str
    x: float
    y: float
    anchor: str
    name: str


@dataclass(frozen=True)
class Spot:
    """A mark at the upper edge for losses that are not finite."""

    x: float
    width: float
    title: str


@dataclass(frozen=True)
class FirstWrong:
    """The first step that differs from the reference, and the components that differ."""

    step: int
    x: float
    name: str
    anchor: str


@dataclass(frozen=True)
class LossPicture:
    """The layout. `top` and `bottom` are the edges of the plot, `axis` is the baseline of the step numbers."""

    x: Scale
    y: Scale
    top: float
    bottom: float
    axis: float
    height: float
    steps: int
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    bands: Sequence[SpreadBand]
    reference: LossLine | None
    run: LossLine
    spread: str
    branches: Sequence[LossLine]
    glyphs: Sequence[Glyph]
    arrows: Sequence[Arrow]
    spots: Sequence[Spot]
    first_wrong: FirstWrong | None
    scalar: bool

    @property
    def looks(self) -> set[str]:
        """The kinds of checkpoints in the picture."""
        return {glyph.look for glyph in self.glyphs}

    @property
    def drawn(self) -> bool:
        """Whether the picture shows any loss."""
        return bool(self.run.path or self.spots or self.branches or (self.reference and self.reference.path))

    @property
    def description(self) -> str:
        """Describe the picture in words."""
        return ". ".join([*self._lines(), *self._events()]) + "."

    def _lines(self) -> Iterator[str]:
        yield f"Loss by step, from 0 to {self.steps}{', on a logarithmic scale' if self.y.log else ''}"
        if self.reference is not None:
            yield "The thick line is this run, the thin dashed line the uninterrupted run"
        for line in self.branches:
            steps = line.curve.steps
            yield f"Steps {steps[0]} to {steps[-1]} of incarnation {line.curve.incarnation} were rolled back"

    def _events(self) -> Iterator[str]:
        yield from (str(band.window) for band in self.bands)
        yield from (str(arrow.back) for arrow in self.arrows)
        yield from (spot.title for spot in self.spots)
        if self.first_wrong is not None:
            yield self.first_wrong.name


def steps_of(case: Case) -> int:
    """Return the last step of the axis that all pictures share."""
    wanted = case.reference.steps if case.reference is not None else 0
    return max(wanted, case.timeline.highest(), 1)


def axis_of(case: Case) -> Scale:
    """Return the axis that all pictures share."""
    return counted(steps_of(case), LEFT, RIGHT)


def loss_picture(case: Case) -> LossPicture:
    """Lay out the picture of a run."""
    drawn, x = curves(case), axis_of(case)
    named = _bands(windows(case), x)
    rows = 1 + max((row for _, row in named), default=-1)
    wrong = _first_wrong(case, x)
    top = 12.0 + ROW * (rows + bool(wrong))
    bottom = top + PLOT
    y = scale_of((value for curve in drawn.all for value in curve.finite()), bottom - 4, top + 10)
    glyphs = _glyphs(marks(case), x, bottom + 30)
    arrows = _arrows(returns(case), x, max((glyph.y for glyph in glyphs), default=bottom + 24) + 9)
    keep = drawn.telling
    axis = bottom + 15
    return LossPicture(
        x, y, top, bottom, axis,
        height=max([glyph.y + 10 for glyph in glyphs] + [arrow.y + 8 for arrow in arrows] + [axis + 8]),
        steps=steps_of(case),
        x_ticks=[(x(tick), str(tick)) for tick in whole_ticks(x, 10)],
        y_ticks=[(y(tick), show(tick)) for tick in y.ticks(6)],
        bands=[_placed(band, 12.0 + ROW * (row + bool(wrong)) + 8) for band, row in named],
        reference=LossLine(_path(drawn.reference, x, y, keep), drawn.reference) if drawn.reference else None,
        run=LossLine(_path(drawn.kept, x, y, keep), drawn.kept),
        spread=_spread(drawn.kept, x, y),
        branches=[LossLine(_path(branch, x, y, keep), branch) for branch in drawn.branches],
        glyphs=glyphs,
        arrows=arrows,
        spots=list(_spots(drawn, x)),
        first_wrong=wrong,
        scalar=all(curve.scalar for curve in drawn.all),
    )  # fmt: skip


def _path(curve: Curve, x: Scale, y: Scale, keep: Collection[int]) -> str:
    """Return a path with a line for each piece; a single point is a dot."""
    parts = []
    for places in curve.thinned(lambda step: int(x(step)), keep):
        points = [f"{_short(x(curve.steps[at]))} {_short(y(curve.means[at]))}" for at in places]
        parts.append(f"M{'L'.join(points)}" if len(points) > 1 else f"M{points[0]}h0")
    return "".join(parts)


def _spread(curve: Curve, x: Scale, y: Scale) -> str:
    """Return the area between the smallest and the largest loss of all ranks; empty if the ranks do not differ."""
    if not curve.ranks_differ:
        return ""
    parts = []
    for start, end in curve.pieces():
        columns: dict[int, tuple[float, float]] = {}
        for at in range(start, end):
            low, high = curve.lows[at], curve.highs[at]
            column = int(x(curve.steps[at]))
            least, most = columns.get(column, (low, high))
            columns[column] = min(least, low), max(most, high)
        there = [f"{column} {_short(y(high))}" for column, (_, high) in columns.items()]
        back = [f"{column} {_short(y(low))}" for column, (low, _) in reversed(columns.items())]
        parts.append(f"M{'L'.join([*there, *back])}Z")
    return "".join(parts)


def _short(pixel: float) -> str:
    return f"{pixel:.1f}".removesuffix(".0")


def _bands(found: Iterable[FaultWindow], x: Scale) -> list[tuple[SpreadBand, int]]:
    """Place the fault windows, and find for each name a row above the plot."""
    ends: list[float] = []
    placed = []
    for window in sorted(found, key=lambda one: (one.first, one.last, one.fault)):
        left, right = x(window.first), x(min(window.last, x.high))
        width = max(right - left, 3.0)
        name = window.name if len(window.name) <= LONGEST else f"{window.name[: LONGEST - 1]}…"
        long = len(name) * LETTER
        anchor = "start" if left + long < RIGHT else "end"
        start = left if anchor == "start" else left + width - long
        row = next((row for row, end in enumerate(ends) if start > end), len(ends))
        ends[row : row + 1] = [start + long + 8]
        placed.append(
            (SpreadBand(window, left, width, name, left if anchor == "start" else left + width, 0.0, anchor), row)
        )
    return placed


def _placed(band: SpreadBand, y: float) -> SpreadBand:
    return SpreadBand(band.window, band.x, band.width, band.name, band.name_x, y, band.anchor)


def _glyphs(found: Iterable[CheckpointMark], x: Scale, y: float) -> list[Glyph]:
    at: dict[int, int] = {}
    glyphs = []
    for mark in found:
        row = at[mark.position] = at.get(mark.position, -1) + 1
        glyphs.append(Glyph(mark, x(mark.position), y + STRIP * row))
    return glyphs


def _arrows(found: Iterable[ReturnMark], x: Scale, y: float) -> list[Arrow]:
    """Place the arrows one below the other. The name stands on the left if there is no space on the right."""
    arrows = []
    for back in found:
        if back.to is None:
            continue
        here, there = x(back.reached), x(back.to)
        deep = y + 26
        # A curve below the plot that ends upward, visible also if both positions are close.
        path = f"M{here} {y}C{here} {deep},{there} {deep},{there} {y + 3}"
        name = (
            f"incarnation {back.incarnation} resumed from {back.to}"
            if back.to
            else f"incarnation {back.incarnation} restarted from 0"
        )
        room = max(here, there) + 8 + len(name) * LETTER <= RIGHT
        beside, anchor = (max(here, there) + 8, "start") if room else (min(here, there) - 10, "end")
        arrows.append(Arrow(back, path, beside, y + 16, anchor, name))
        y += 24
    return arrows


def _spots(drawn: Curves, x: Scale) -> Iterator[Spot]:
    for curve, whose in [(drawn.kept, ""), *((branch, ", rolled back") for branch in drawn.branches)]:
        for first, last, what in curve.nonfinite():
            where = f"step {first}" if first == last else f"steps {first} to {last}"
            yield Spot(x(first), round(x(last) - x(first), 1), f"The loss of {where} is {what}{whose}")


def _first_wrong(case: Case, x: Scale) -> FirstWrong | None:
    """Return the first divergence from the reference."""
    if not case.comparison.differences:
        return None
    one = case.comparison.differences[0]
    where = one.execution
    what = "beyond the reference's last step" if "steps" in one.values else components(set(one.values))
    name = f"first difference: step {where.step}, rank {where.rank}: {what}"
    at = x(min(where.step, x.high))
    return FirstWrong(where.step, at, name, "start" if at + len(name) * LETTER < RIGHT else "end")
