"""The parts of the pictures of a forecast: boxes, lines and words, which the page's template draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Words:
    """A text at a point; `anchor` is that of SVG, `kind` its class."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    kind: str = ""


@dataclass(frozen=True)
class Stroke:
    """A path of a class; `title` is what it says when it is pointed at."""

    path: str
    kind: str
    title: str = ""


@dataclass(frozen=True)
class ForecastPicture:
    """A picture: its size in pixels, its title, a description in words, and what is drawn, in that order."""

    width: float
    height: float
    title: str
    description: str
    strokes: Sequence[Stroke] = field(default=())
    words: Sequence[Words] = field(default=())


def box(x: float, y: float, width: float, height: float) -> str:
    """The path of a rectangle."""
    return f"M{x:.1f} {y:.1f}h{max(width, 0.0):.1f}v{height:.1f}h{-max(width, 0.0):.1f}z"


def kind_of(cause: str) -> str:
    """The class of a cause of loss."""
    return cause.replace(" ", "-")
