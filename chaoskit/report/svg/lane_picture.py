"""`LanePicture`: the layout of the lanes of all ranks, with the axis of the loss picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaoskit.analysis.case import Case
from chaoskit.report.svg.axes import Scale, whole_ticks
from chaoskit.report.svg.fault_windows import FaultWindow, windows
from chaoskit.report.svg.lanes import Bar, Lane, Stall, lanes, shown, stepless
from chaoskit.report.svg.loss_picture import axis_of

#: In pixels: height of a bar, space between rows and between lanes; smaller for more than `TIGHT` lanes.
BAR, BETWEEN, APART = 9, 3, 8
TIGHT = 24
#: Longer names of lanes are shortened; the tooltip has the full name.
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
class LaneRow:
    """A lane in pixels."""

    lane: Lane
    name: str
    y: float
    bars: Sequence[Placed]


@dataclass(frozen=True)
class LanePicture:
    """The layout. `hidden` is the number of ranks without a lane, `stepless` are lifetimes that took no step."""

    x: Scale
    top: float
    bottom: float
    height: float
    x_ticks: Sequence[tuple[float, str]]
    rows: Sequence[LaneRow]
    windows: Sequence[tuple[float, float, FaultWindow]]
    hidden: int
    stepless: Sequence[int]

    @property
    def deaths(self) -> bool:
        """Whether any process was killed or crashed."""
        return any(each.bar.end in ("struck", "raised", "gone") for row in self.rows for each in row.bars)

    @property
    def rollbacks(self) -> bool:
        """Whether any rank rolled back without a restart."""
        return any(each.bar.taken for row in self.rows for each in row.bars)

    @property
    def stalls(self) -> bool:
        """Whether any rank stalled."""
        return any(each.stalls for row in self.rows for each in row.bars)

    @property
    def description(self) -> str:
        """Describe the picture in words."""
        lines = [
            f"{row.lane.name}: {'. '.join(map(str, row.lane.bars)) or 'no step'}" for row in self.rows[:TIGHT]
        ]
        left = len(self.rows) - TIGHT
        return ". ".join([*lines, *([f"and {left} more lanes"] if left > 0 else [])]) + "."


def lane_picture(case: Case) -> LanePicture:
    """Lay out the lanes of a run."""
    x = axis_of(case)
    found, hidden = shown(lanes(case))
    bar, apart = (BAR, APART) if len(found) <= TIGHT else (6, 4)
    top = y = 6.0
    rows = []
    for lane in found:
        rows.append(_row(lane, x, y + apart / 2, bar))
        y += lane.rows * (bar + BETWEEN) - BETWEEN + apart
    marked = [(x(one.first), max(x(min(one.last, x.high)) - x(one.first), 3.0), one) for one in windows(case)]
    ticks = [(x(tick), str(tick)) for tick in whole_ticks(x, 10)]
    return LanePicture(x, top, y, y + 22, ticks, rows, marked, hidden, stepless(case))


def _row(lane: Lane, x: Scale, y: float, height: float) -> LaneRow:
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
    return LaneRow(lane, name, y, placed)
