"""The layout of a small picture of one experiment over many nights: a time, its levels, changed settings, verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from chaoskit.studies.nights.suite_history import SettingChange
from chaoskit.studies.nights.trends import LevelShift

#: In pixels: the size of the picture, and the position of the curve and the verdicts.
WIDTH, HEIGHT = 320, 104
LEFT, RIGHT, TOP, BOTTOM, VERDICTS = 34, 6, 14, 70, 86
#: Maximum width of a night, so that a few nights do not fill the whole picture.
WIDEST = 16.0
#: Below this width of a night, signs become strokes and lines become thin.
NARROW = 7.0
#: The axis ends at this multiple of the 90th percentile; larger times are drawn at the upper edge.
ROOM = 1.6
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Level:
    """Consecutive nights with the same usual time."""

    left: float
    right: float
    y: float


@dataclass(frozen=True)
class ChangeMark:
    """A mark at a night: a shift of the time (`sign` is its direction), or a change of settings (a letter)."""

    x: float
    sign: str


@dataclass(frozen=True)
class NightPicture:
    """The layout; lines are SVG paths. `verdicts` are paths by verdict, `off` the times above the upper edge, `other`
    the times of other machines."""

    line: str
    other: str
    off: str
    levels: tuple[Level, ...]
    shifts: tuple[ChangeMark, ...]
    changes: tuple[ChangeMark, ...]
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
    changes: Sequence[SettingChange] = (),
) -> NightPicture:
    """Lay out the values and verdicts of all nights; `home` says which nights are of the machine of the line."""
    known = sorted(value for value in values if value is not None)
    highest = ROOM * known[int(0.9 * (len(known) - 1))] if known else None
    scale = _Scale(len(values), highest or 1.0)
    places = {at: value for at, value in enumerate(values) if value is not None}
    mine = [at for at in places if home[at]]
    kinds = {
        kind: _signs(
            kind, [scale.x(at) for at, one in enumerate(verdicts) if one == kind], small=scale.step < NARROW
        )
        for kind in ("pass", "fail", "accepted", "skipped")
    }
    return NightPicture(
        line=_line([(scale.x(at), scale.y(places[at])) for at in mine]),
        other="".join(_dot(scale.x(at), scale.y(places[at])) for at in places if not home[at]),
        off="".join(f"M{_n(scale.x(at) - 2)} {TOP}l2-4 2 4z" for at in places if places[at] > scale.highest),
        levels=tuple(_levels(scale, mine, shifts)),
        shifts=tuple(ChangeMark(scale.edge(shift.at), "▲" if shift.slower else "▼") for shift in shifts),
        changes=tuple(
            ChangeMark(scale.edge(at), letter(n)) for n, at in enumerate(dict.fromkeys(one.at for one in changes))
        ),
        verdicts={kind: path for kind, path in kinds.items() if path},
        unsure=tuple(scale.x(at) for at, one in enumerate(verdicts) if one == "inconclusive"),
        highest=highest,
        dense=scale.step < NARROW / 2,
    )


def letter(place: int) -> str:
    """Return the letter of a change of settings; empty after the last letter."""
    return LETTERS[place] if place < len(LETTERS) else ""


class _Scale:
    """Maps nights and seconds to pixels."""

    def __init__(self, nights: int, highest: float) -> None:
        self.highest = highest
        self.step = min((WIDTH - LEFT - RIGHT) / max(nights, 1), WIDEST)

    def x(self, at: int) -> float:
        """Return the middle of a night."""
        return LEFT + (at + 0.5) * self.step

    def edge(self, at: int) -> float:
        """Return the left edge of a night."""
        return round(LEFT + at * self.step, 1)

    def y(self, value: float) -> float:
        """Return the pixel of a time, at most the upper edge."""
        return BOTTOM - (BOTTOM - TOP) * min(value / self.highest, 1.0)


def _line(points: Sequence[tuple[float, float]]) -> str:
    """Connect all points; a single point is a short stroke."""
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
    """Draw a tick, a cross, two waves or a dash at each position; smaller shapes for narrow nights."""
    shapes = {
        "pass": "m0-2v4" if small else "m-3 0l2 3 4-6",
        "fail": "m-2.5-4l5 8m0-8l-5 8" if small else "m-3-3l6 6m0-6l-6 6",
        "accepted": "m-1 0h2" if small else "m-3-1q1.5-2 3 0t3 0m-6 3q1.5-2 3 0t3 0",
        "skipped": "m-.5 0h1" if small else "m-2 0h4",
    }
    return "".join(f"M{_n(x)} {VERDICTS}{shapes[kind]}" for x in xs)


def _dot(x: float, y: float) -> str:
    return f"M{_n(x - 1.5)} {_n(y)}a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
