"""`LanePicture`: the lanes of all ranks laid out in pixels, on the axis of the picture of the losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaoskit.checks.check import Case
from chaoskit.report.axes import Scale, whole_ticks
from chaoskit.report.fault_windows import Window, windows
from chaoskit.report.lanes import Bar, Lane, Stall, lanes, shown, stepless
from chaoskit.report.loss_picture import axis_of

#: In pixels: how high a bar is, and what is between two rows and two lanes; less of all where there are many lanes.
BAR, BETWEEN, APART = 9, 3, 8
TIGHT = 24
#: A name of a lane that is longer than that is cut; its title has the whole.
LONGEST = 9


@dataclass(frozen=True)
class Placed:
    """A bar in pixels."""

    bar: Bar
    x: float
    width: float
    y: float
    height: float
    stalls: Sequence[tuple[float, Stall]]


@dataclass(frozen=True)
class Row:
    """A lane in pixels."""

    lane: Lane
    name: str
    y: float
    bars: Sequence[Placed]


@dataclass(frozen=True)
class LanePicture:
    """Where everything is. `hidden` counts the ranks for which there was no room, `stepless` are lives that took no
    step."""

    x: Scale
    top: float
    bottom: float
    height: float
    x_ticks: Sequence[tuple[float, str]]
    rows: Sequence[Row]
    windows: Sequence[tuple[float, float, Window]]
    hidden: int
    stepless: Sequence[int]

    @property
    def deaths(self) -> bool:
        """Whether any life broke off."""
        return any(each.bar.end in ("struck", "raised", "gone") for row in self.rows for each in row.bars)

    @property
    def rollbacks(self) -> bool:
        """Whether any rank went back in its process."""
        return any(each.bar.taken for row in self.rows for each in row.bars)

    @property
    def stalls(self) -> bool:
        """Whether any rank stood still."""
        return any(each.stalls for row in self.rows for each in row.bars)

    @property
    def description(self) -> str:
        """The picture in words."""
        told = [f"{row.lane.name}: {'. '.join(map(str, row.lane.bars)) or 'no step'}" for row in self.rows[:TIGHT]]
        left = len(self.rows) - TIGHT
        return ". ".join([*told, *([f"and {left} lanes more"] if left > 0 else [])]) + "."


def lane_picture(case: Case) -> LanePicture:
    """The lanes of a run."""
    x = axis_of(case)
    found, hidden = shown(lanes(case))
    bar, apart = (BAR, APART) if len(found) <= TIGHT else (6, 4)
    top = y = 6.0
    rows = []
    for lane in found:
        rows.append(_row(lane, x, y + apart / 2, bar))
        y += lane.rows * (bar + BETWEEN) - BETWEEN + apart
    struck = [(x(one.first), max(x(min(one.last, x.high)) - x(one.first), 3.0), one) for one in windows(case)]
    ticks = [(x(tick), str(tick)) for tick in whole_ticks(x, 10)]
    return LanePicture(x, top, y, y + 22, ticks, rows, struck, hidden, stepless(case))


def _row(lane: Lane, x: Scale, y: float, height: float) -> Row:
    placed = [
        Placed(
            bar, x(bar.first), max(x(bar.last) - x(bar.first), 2.0), y + bar.row * (height + BETWEEN), height,
            [(x(stall.position), stall) for stall in bar.stalls],
        )
        for bar in lane.bars
    ]  # fmt: skip
    name = lane.name
    if len(name) > LONGEST:
        first = name.partition(",")[0].removeprefix("ranks ")
        name = f"{first}, …" if "," in name else first
    return Row(lane, name, y, placed)
