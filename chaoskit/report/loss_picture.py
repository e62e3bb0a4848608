"""`LossPicture`: loss against step, laid out in pixels: the curves, the faults, the checkpoints and the ways back.

Everything is placed here and drawn by `templates/losses.svg.j2`; the lanes stand below it on the same axis.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaoskit.checks.check import Case
from chaoskit.checks.explanation import components
from chaoskit.report.axes import Scale, counted, scale_of, show, whole_ticks
from chaoskit.report.checkpoint_marks import Mark, Return, marks, returns
from chaoskit.report.curves import Curve, Curves, curves
from chaoskit.report.fault_windows import Window, windows

#: In pixels: the width of a picture, and where its axis begins and ends.
WIDTH, LEFT, RIGHT = 960, 72, 944
#: How high the plot is, one row of names above it, one of checkpoints below it.
PLOT, ROW, STRIP = 300, 18, 15
#: Of the letters in a name, about.
LETTER = 6.6
#: Names longer than this are cut; the whole stands in the title.
LONGEST = 44


@dataclass(frozen=True)
class Band:
    """A fault window: a shaded piece of the axis, its name above it (`anchor`: start or end) in row `row`."""

    window: Window
    x: float
    width: float
    name: str
    name_x: float
    name_y: float
    anchor: str


@dataclass(frozen=True)
class Line:
    """A curve as SVG path data."""

    path: str
    curve: Curve


@dataclass(frozen=True)
class Glyph:
    """A checkpoint below the plot; those of one position stand in a column."""

    mark: Mark
    x: float
    y: float

    @property
    def look(self) -> str:
        """Its class in the style sheet; of one that was resumed from although it was damaged, two."""
        harmed = self.mark.standing == "resumed" and self.mark.harm
        return "resumed harmed" if harmed else self.mark.standing


@dataclass(frozen=True)
class Arrow:
    """From the position that had been reached back to the one that was resumed from."""

    back: Return
    path: str
    x: float
    y: float
    anchor: str
    name: str


@dataclass(frozen=True)
class Spot:
    """A piece of the upper edge: losses that are not finite."""

    x: float
    width: float
    title: str


@dataclass(frozen=True)
class FirstWrong:
    """The first step that differs from the reference, and in what."""

    step: int
    x: float
    name: str
    anchor: str


@dataclass(frozen=True)
class LossPicture:
    """Where everything is. `top` and `bottom` are the edges of the plot, `axis` is where the numbers of the steps
    stand."""

    x: Scale
    y: Scale
    top: float
    bottom: float
    axis: float
    height: float
    steps: int
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    bands: Sequence[Band]
    reference: Line | None
    run: Line
    spread: str
    branches: Sequence[Line]
    glyphs: Sequence[Glyph]
    arrows: Sequence[Arrow]
    spots: Sequence[Spot]
    first_wrong: FirstWrong | None
    scalar: bool

    @property
    def looks(self) -> set[str]:
        """Which kinds of checkpoints there are."""
        return {glyph.look for glyph in self.glyphs}

    @property
    def drawn(self) -> bool:
        """Whether there is any loss to see."""
        return bool(self.run.path or self.spots or self.branches or (self.reference and self.reference.path))

    @property
    def description(self) -> str:
        """The picture in words."""
        return ". ".join([*self._lines(), *self._events()]) + "."

    def _lines(self) -> Iterator[str]:
        yield f"Loss against step, from 0 to {self.steps}{', on a logarithmic scale' if self.y.log else ''}"
        if self.reference is not None:
            yield "A wide pale line is the uninterrupted run, a thin one over it the run under faults"
        for line in self.branches:
            steps = line.curve.steps
            yield f"Steps {steps[0]} to {steps[-1]} of life {line.curve.incarnation} were rolled back"

    def _events(self) -> Iterator[str]:
        yield from (str(band.window) for band in self.bands)
        yield from (str(arrow.back) for arrow in self.arrows)
        yield from (spot.title for spot in self.spots)
        if self.first_wrong is not None:
            yield self.first_wrong.name


def steps_of(case: Case) -> int:
    """The last step of the axis that all pictures share."""
    wanted = case.reference.steps if case.reference is not None else 0
    return max(wanted, case.timeline.highest(), 1)


def axis_of(case: Case) -> Scale:
    """That axis."""
    return counted(steps_of(case), LEFT, RIGHT)


def loss_picture(case: Case) -> LossPicture:
    """The picture of a run."""
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
        reference=Line(_path(drawn.reference, x, y, keep), drawn.reference) if drawn.reference else None,
        run=Line(_path(drawn.kept, x, y, keep), drawn.kept),
        spread=_spread(drawn.kept, x, y),
        branches=[Line(_path(branch, x, y, keep), branch) for branch in drawn.branches],
        glyphs=glyphs,
        arrows=arrows,
        spots=list(_spots(drawn, x)),
        first_wrong=wrong,
        scalar=all(curve.scalar for curve in drawn.all),
    )  # fmt: skip


def _path(curve: Curve, x: Scale, y: Scale, keep: Collection[int]) -> str:
    """A line for each piece; a piece of one point is a dot."""
    parts = []
    for places in curve.thinned(lambda step: int(x(step)), keep):
        points = [f"{_short(x(curve.steps[at]))} {_short(y(curve.means[at]))}" for at in places]
        parts.append(f"M{'L'.join(points)}" if len(points) > 1 else f"M{points[0]}h0")
    return "".join(parts)


def _spread(curve: Curve, x: Scale, y: Scale) -> str:
    """The area between the least and the largest loss of all ranks, column by column; empty where all have one."""
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


def _bands(found: Iterable[Window], x: Scale) -> list[tuple[Band, int]]:
    """The windows, and in which row above the plot there is room for the name of each."""
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
            (Band(window, left, width, name, left if anchor == "start" else left + width, 0.0, anchor), row)
        )
    return placed


def _placed(band: Band, y: float) -> Band:
    return Band(band.window, band.x, band.width, band.name, band.name_x, y, band.anchor)


def _glyphs(found: Iterable[Mark], x: Scale, y: float) -> list[Glyph]:
    at: dict[int, int] = {}
    glyphs = []
    for mark in found:
        row = at[mark.position] = at.get(mark.position, -1) + 1
        glyphs.append(Glyph(mark, x(mark.position), y + STRIP * row))
    return glyphs


def _arrows(found: Iterable[Return], x: Scale, y: float) -> list[Arrow]:
    """One below the other, so that each can be followed; its name stands to the left where there is no room to the
    right."""
    arrows = []
    for back in found:
        if back.to is None:
            continue
        here, there = x(back.reached), x(back.to)
        deep = y + 26
        # It dips, and ends pointing up: so it can be seen however near the two are.
        path = f"M{here} {y}C{here} {deep},{there} {deep},{there} {y + 3}"
        name = (
            f"life {back.incarnation} resumed from {back.to}"
            if back.to
            else f"life {back.incarnation} began again"
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
    """Where the run first parted from the reference."""
    if not case.comparison.differences:
        return None
    one = case.comparison.differences[0]
    where = one.execution
    what = "a step too many" if "steps" in one.values else components(set(one.values))
    name = f"first difference: step {where.step}, rank {where.rank}: {what}"
    at = x(min(where.step, x.high))
    return FirstWrong(where.step, at, name, "start" if at + len(name) * LETTER < RIGHT else "end")
