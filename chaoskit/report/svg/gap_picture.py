"""The layout of a picture: the relative difference between the losses of two references by step, logarithmic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from chaoskit.studies.nights.drift import Drift

#: In pixels: the size of the picture, and the margins of the plot.
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 240, 64, 26, 34
RIGHT = 14
#: Maximum number of points; with more steps each point shows the largest difference of several.
MOST = WIDTH - LEFT - RIGHT


@dataclass(frozen=True)
class Point:
    """The largest difference of the steps from `first` to `last`, at pixel `x`, `y`; `level` is `equal`, `gap` or
    `endless` (a loss is not finite)."""

    first: int
    last: int
    gap: float
    level: str
    x: float
    y: float

    @property
    def said(self) -> str:
        """'step 12: 4.2e-07'."""
        where = f"step {self.first}" if self.first == self.last else f"steps {self.first}-{self.last}, maximum"
        value = {"equal": "equal", "endless": "not finite"}.get(self.level, f"{self.gap:.3g}")
        return f"{where}: {value}"


@dataclass(frozen=True)
class GapPicture:
    """`lines` are paths through neighbouring points; `rows` and `columns` are ticks (pixel and text); `parting` is the
    x of the step at which the references diverge."""

    points: tuple[Point, ...]
    lines: tuple[str, ...]
    rows: tuple[tuple[float, str], ...]
    columns: tuple[tuple[float, str], ...]
    parting: float | None
    description: str
    thinned: int
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def picture(drift: Drift) -> GapPicture | None:
    """Lay out the picture; None if no loss differs."""
    finite = [gap for _, gap in drift.curve if 0 < gap < math.inf]
    if drift.first is None or not drift.curve:
        return None
    low = math.floor(math.log10(min(finite, default=1e-8)))
    high = max(math.ceil(math.log10(max(finite, default=1.0))), low + 1)
    last = drift.curve[-1][0]
    points = tuple(_points(drift.curve, low, high, last))
    description = (
        f"relative difference of the losses of {last} steps, logarithmic, from 1e{low} to 1e{high}; "
        f"the first loss that differs is at step {drift.first.step}"
    )
    stride = max(1, math.ceil((high - low) / 6))
    rows = [(_y(10.0**power, low, high), f"1e{power}") for power in range(low, high + 1, stride)]
    marks = sorted({1, *(round(last * part / 4) or 1 for part in range(1, 5))})
    return GapPicture(
        points,
        tuple(_lines(points)),
        (*rows, (HEIGHT - BOTTOM, "equal")),
        tuple((_x(step, last), str(step)) for step in marks),
        _x(min(drift.step or last, last), last),
        description,
        thinned=math.ceil(last / MOST),
    )


def _points(curve: tuple[tuple[int, float], ...], low: int, high: int, last: int) -> list[Point]:
    made = []
    size = math.ceil(last / MOST)
    for start in range(0, len(curve), size):
        part = curve[start : start + size]
        gap = max(each for _, each in part)
        level = "equal" if gap == 0 else "endless" if gap == math.inf else "gap"
        middle = (part[0][0] + part[-1][0]) / 2
        made.append(Point(part[0][0], part[-1][0], gap, level, _x(middle, last), _y(gap, low, high)))
    return made


def _lines(points: tuple[Point, ...]) -> list[str]:
    """Connect neighbouring points with a difference; a single point has only its dot."""
    found: list[list[Point]] = [[]]
    for point in points:
        if point.level == "gap":
            found[-1].append(point)
        elif found[-1]:
            found.append([])
    return ["M" + "L".join(f"{p.x:.1f} {p.y:.1f}" for p in line) for line in found if len(line) > 1]


def _x(step: float, last: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * (step - 1) / max(last - 1, 1), 1)


def _y(gap: float, low: int, high: int) -> float:
    """Return the pixel of a difference: zero at the bottom, infinity at the top."""
    if gap == 0:
        return HEIGHT - BOTTOM
    if gap == math.inf:
        return TOP
    share = (math.log10(gap) - low) / (high - low)
    return round(HEIGHT - BOTTOM - 22 - (HEIGHT - BOTTOM - 22 - TOP) * share, 1)
