"""A small picture of one experiment over many nights: a time as a line, its levels, what was changed, the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from chaoskit.suites.chronicle import Change
from chaoskit.suites.trends import LevelShift

#: The size of the drawing, and where in it the curve and the verdicts are.
WIDTH, HEIGHT = 320, 104
LEFT, RIGHT, TOP, BOTTOM, VERDICTS = 34, 6, 14, 70, 86
#: A night is so wide at most, so that three of them are not spread over the whole picture.
WIDEST = 16.0
#: Where it is narrower than this, signs become strokes, and lines thin.
NARROW = 7.0
#: What is further up than this, by the time that all but a tenth stay below, is drawn at the upper edge.
ROOM = 1.6
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Level:
    """A stretch of nights with one usual time."""

    left: float
    right: float
    y: float


@dataclass(frozen=True)
class Mark:
    """Something at a night: a step of the time (`sign` says which way), or a change of versions (a letter)."""

    x: float
    sign: str


@dataclass(frozen=True)
class Picture:
    """What is drawn, in the coordinates of the drawing; paths as SVG has them. `verdicts` are paths by verdict, `off`
    the times above the upper edge, `other` those of other machines."""

    line: str
    other: str
    off: str
    levels: tuple[Level, ...]
    shifts: tuple[Mark, ...]
    changes: tuple[Mark, ...]
    verdicts: Mapping[str, str]
    unsure: tuple[float, ...]
    highest: float | None
    dense: bool

    width, height, left, right, top, bottom, row = WIDTH, HEIGHT, LEFT, WIDTH - RIGHT, TOP, BOTTOM, VERDICTS


def picture(
    values: Sequence[float | None],
    verdicts: Sequence[str | None],
    *,
    home: Sequence[bool],
    shifts: Sequence[LevelShift] = (),
    changes: Sequence[Change] = (),
) -> Picture:
    """Of the values and verdicts of all nights; `home` says which nights belong to the line, those of one machine."""
    known = sorted(value for value in values if value is not None)
    highest = ROOM * known[int(0.9 * (len(known) - 1))] if known else None
    scale = _Scale(len(values), highest or 1.0)
    places = {at: value for at, value in enumerate(values) if value is not None}
    mine = [at for at in places if home[at]]
    kinds = {
        kind: _signs(
            kind, [scale.x(at) for at, one in enumerate(verdicts) if one == kind], small=scale.step < NARROW
        )
        for kind in ("pass", "fail", "skipped")
    }
    return Picture(
        line=_line([(scale.x(at), scale.y(places[at])) for at in mine]),
        other="".join(_dot(scale.x(at), scale.y(places[at])) for at in places if not home[at]),
        off="".join(f"M{_n(scale.x(at) - 2)} {TOP}l2-4 2 4z" for at in places if places[at] > scale.highest),
        levels=tuple(_levels(scale, mine, shifts)),
        shifts=tuple(Mark(scale.edge(shift.at), "▲" if shift.slower else "▼") for shift in shifts),
        changes=tuple(
            Mark(scale.edge(at), letter(n)) for n, at in enumerate(dict.fromkeys(one.at for one in changes))
        ),
        verdicts={kind: path for kind, path in kinds.items() if path},
        unsure=tuple(scale.x(at) for at, one in enumerate(verdicts) if one == "inconclusive"),
        highest=highest,
        dense=scale.step < NARROW / 2,
    )


def letter(place: int) -> str:
    """What a change of versions is called in the pictures; of very many only the first have one."""
    return LETTERS[place] if place < len(LETTERS) else ""


class _Scale:
    """Nights and seconds as coordinates."""

    def __init__(self, nights: int, highest: float) -> None:
        self.highest = highest
        self.step = min((WIDTH - LEFT - RIGHT) / max(nights, 1), WIDEST)

    def x(self, at: int) -> float:
        """The middle of a night."""
        return LEFT + (at + 0.5) * self.step

    def edge(self, at: int) -> float:
        """Where a night begins."""
        return round(LEFT + at * self.step, 1)

    def y(self, value: float) -> float:
        """A time; what is too high is at the upper edge."""
        return BOTTOM - (BOTTOM - TOP) * min(value / self.highest, 1.0)


def _line(points: Sequence[tuple[float, float]]) -> str:
    """Through all points; a short stroke where there is one only."""
    if len(points) == 1:
        return f"M{_n(points[0][0] - 2)} {_n(points[0][1])}h4"
    return " ".join(f"{'L' if n else 'M'}{_n(x)} {_n(y)}" for n, (x, y) in enumerate(points))


def _levels(scale: _Scale, nights: Sequence[int], shifts: Sequence[LevelShift]) -> list[Level]:
    if not shifts or not nights:
        return []
    edges = [nights[0], *(shift.at for shift in shifts), nights[-1] + 1]
    times = [shifts[0].before, *(shift.after for shift in shifts)]
    return [
        Level(scale.edge(first), scale.edge(last), round(scale.y(time), 1))
        for (first, last), time in zip(pairwise(edges), times, strict=True)
    ]


def _signs(kind: str, xs: Sequence[float], *, small: bool) -> str:
    """A tick, a cross or a dash at each place; where nights are narrow, a tick is a stroke, and a cross stays one."""
    shapes = {
        "pass": "m0-2v4" if small else "m-3 0l2 3 4-6",
        "fail": "m-2.5-4l5 8m0-8l-5 8" if small else "m-3-3l6 6m0-6l-6 6",
        "skipped": "m-.5 0h1" if small else "m-2 0h4",
    }
    return "".join(f"M{_n(x)} {VERDICTS}{shapes[kind]}" for x in xs)


def _dot(x: float, y: float) -> str:
    return f"M{_n(x - 1.5)} {_n(y)}a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
