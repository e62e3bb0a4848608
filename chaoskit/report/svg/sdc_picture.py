"""The SVG picture of an SDC map: targets by changes; each cell is a bar with the shares of the outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from chaoskit.report.terminal.sdc_report import text, total
from chaoskit.studies.sdc.changes import CHANGES
from chaoskit.studies.sdc.map import SdcMap, Share
from chaoskit.studies.sdc.trace import CLASSES, Class

#: For each outcome the colours on a light and on a dark ground: distinguishable in grey and for colour-blind readers.
COLOURS: dict[Class, tuple[str, str]] = {
    "detected": ("#2a7f9e", "#4aa9cb"),
    "crashed": ("#e0a030", "#e0a030"),
    "hung": ("#7a5a1e", "#83632b"),
    "gone": ("#e9eef0", "#2b3238"),
    "faded": ("#b9c8cc", "#56636b"),
    "silent": ("#b3202c", "#ff6b73"),
}
#: Of the ground, the text, the lines.
GROUND = {"ground": ("#ffffff", "#14171a"), "ink": ("#1c2126", "#e4e7e9"), "edge": ("#7d868d", "#7d868d")}
#: In pixels: size of a cell, margins on the left and above, font size.
WIDTH, HEIGHT, LEFT, TOP, SIZE = 104, 50, 190, 84, 12


def svg(one: SdcMap) -> str:
    """Return the self-contained picture, in light or dark as the reader's system is. Cells of too few corruptions are
    hatched: their shares are uncertain."""
    places = [place for place in one.places if any(_of(one, place, change) for change in CHANGES)]
    wide, high = LEFT + WIDTH * len(CHANGES) + 10, TOP + HEIGHT * len(places) + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'role="img" font-family="sans-serif" font-size="{SIZE}">',
        f"<title>{escape(total(one))}</title>",
        f"<desc>{escape(_description(one, places))}</desc>",
        f"<style>{_style()}</style>",
        '<pattern id="vague" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect class="ground" width="3" height="6"/></pattern>',
        f'<rect class="ground" width="{wide}" height="{high}"/>',
        _words(10, 22, total(one), weight="bold"),
        *_legend(10, 40),
    ]
    parts += [
        _words(LEFT + WIDTH * column + WIDTH / 2, TOP - 8, change, anchor="middle")
        for column, change in enumerate(CHANGES)
    ]
    for row, place in enumerate(places):
        y = TOP + HEIGHT * row
        parts.append(_words(10, y + HEIGHT / 2 + 4, text(place)))
        for column, change in enumerate(CHANGES):
            parts += _cell(LEFT + WIDTH * column, y, one.cell(place, change))
    below = "bars: shares of the outcomes; below: silent / all corruptions, and the 95 % interval"
    parts.append(_words(10, high - 34, below))
    hatched = "hatched: too few corruptions to tell (interval wider than 50 %)"
    parts.append(_words(10, high - 14, f"{hatched}. {_about(one)}"))
    return "\n".join([*parts, "</svg>", ""])


def interval(share: Share) -> str:
    """'6-79 %'."""
    low, high = share.interval
    return f"{100 * low:.0f}-{100 * high:.0f} %"


def _style() -> str:
    """The colours by class, for light and dark."""
    both: dict[str, tuple[str, str]] = {**GROUND, **{str(name): pair for name, pair in COLOURS.items()}}
    light, dark = ("".join(f".{name}{{fill:{pair[at]}}}" for name, pair in both.items()) for at in (0, 1))
    edges = [f".box{{fill:none;stroke:{GROUND['edge'][at]}}}" for at in (0, 1)]
    return f"{light}{edges[0]}@media (prefers-color-scheme:dark){{{dark}{edges[1]}}}"


def _description(one: SdcMap, places: Sequence[str]) -> str:
    """The cells in words."""
    cells = [(place, change, one.cell(place, change)["silent"]) for place in places for change in CHANGES]
    told = [
        f"{text(place)}, {change}: {share.hits} of {share.of} silent ({interval(share)})"
        for place, change, share in cells
        if share.of
    ]
    return "; ".join(told) or "no corruption was tested"


def _of(one: SdcMap, place: str, change: str) -> int:
    return one.cell(place, change)["silent"].of


def _about(one: SdcMap) -> str:
    return f"seed {one.seed}, {one.window} steps watched, injected in steps {', '.join(map(str, one.steps))}"


def _cell(x: float, y: float, shares: dict[Class, Share]) -> list[str]:
    silent = shares["silent"]
    parts = [f'<rect class="box" x="{x + 2}" y="{y + 2}" width="{WIDTH - 4}" height="{HEIGHT - 4}"/>']
    if not silent.of:
        return parts
    at, high = x + 3.0, HEIGHT - 26
    for name, share in shares.items():
        width = (WIDTH - 6) * share.value
        if share.hits:
            title = f"{CLASSES[name]}: {share.hits} of {share.of} ({interval(share)})"
            parts.append(
                f'<rect class="{name}" x="{at:.1f}" y="{y + 3}" width="{width:.1f}" height="{high}">'
                f"<title>{escape(title)}</title></rect>"
            )
        at += width
    if silent.vague:
        parts.append(
            f'<rect fill="url(#vague)" pointer-events="none" x="{x + 3}" y="{y + 3}" width="{WIDTH - 6}" '
            f'height="{high}"/>'
        )
    said = f"{silent.hits}/{silent.of} ({interval(silent)})"
    parts.append(_words(x + WIDTH / 2, y + HEIGHT - 9, said, anchor="middle"))
    return parts


def _legend(x: float, y: float) -> list[str]:
    parts = []
    for column, (name, word) in enumerate(CLASSES.items()):
        at = x + 130 * column
        parts.append(f'<rect class="{name}" x="{at}" y="{y}" width="14" height="14"/>')
        parts.append(f'<rect class="box" x="{at}" y="{y}" width="14" height="14"/>')
        parts.append(_words(at + 20, y + 12, word))
    return parts


def _words(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text class="ink" {place}>{escape(words)}</text>'
