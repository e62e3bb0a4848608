"""The SVG picture of an SDC map: targets by changes; each cell is a bar with the shares of the outcomes."""

from __future__ import annotations

from html import escape

from chaoskit.report.terminal.sdc_report import text, total
from chaoskit.studies.sdc.changes import CHANGES
from chaoskit.studies.sdc.map import SdcMap, Share
from chaoskit.studies.sdc.trace import CLASSES, Class

#: Distinguishable in grey and for colour-blind readers.
COLOURS: dict[Class, str] = {
    "detected": "#2a7f9e",
    "crashed": "#e0a030",
    "hung": "#7a5a1e",
    "gone": "#eef2f3",
    "faded": "#c9d6d9",
    "silent": "#b3202c",
}
#: In pixels: size of a cell, margins on the left and above, font size.
WIDTH, HEIGHT, LEFT, TOP, SIZE = 104, 46, 190, 84, 12


def svg(one: SdcMap) -> str:
    """Return the self-contained picture."""
    places = [place for place in one.places if any(_of(one, place, change) for change in CHANGES)]
    wide, high = LEFT + WIDTH * len(CHANGES) + 10, TOP + HEIGHT * len(places) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'font-family="sans-serif" font-size="{SIZE}">',
        f"<title>{escape(total(one))}</title>",
        f'<rect width="{wide}" height="{high}" fill="white"/>',
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
    parts.append(
        _words(10, high - 14, f"bars: shares of the outcomes; numbers: silent / all corruptions. {_about(one)}")
    )
    return "\n".join([*parts, "</svg>", ""])


def _of(one: SdcMap, place: str, change: str) -> int:
    return one.cell(place, change)["silent"].of


def _about(one: SdcMap) -> str:
    return f"seed {one.seed}, {one.window} steps watched, injected in steps {', '.join(map(str, one.steps))}"


def _cell(x: float, y: float, shares: dict[Class, Share]) -> list[str]:
    silent = shares["silent"]
    parts = [
        f'<rect x="{x + 2}" y="{y + 2}" width="{WIDTH - 4}" height="{HEIGHT - 4}" fill="none" stroke="#999"/>'
    ]
    if not silent.of:
        return parts
    at = x + 3.0
    for name, share in shares.items():
        width = (WIDTH - 6) * share.value
        if share.hits:
            low, high = share.interval
            title = f"{CLASSES[name]}: {share.hits} of {share.of} ({100 * low:.0f}-{100 * high:.0f} %)"
            parts.append(
                f'<rect x="{at:.1f}" y="{y + 3}" width="{width:.1f}" height="{HEIGHT - 22}" fill="{COLOURS[name]}">'
                f"<title>{escape(title)}</title></rect>"
            )
        at += width
    parts.append(_words(x + WIDTH / 2, y + HEIGHT - 7, f"{silent.hits}/{silent.of}", anchor="middle"))
    return parts


def _legend(x: float, y: float) -> list[str]:
    parts = []
    for column, (name, word) in enumerate(CLASSES.items()):
        at = x + 130 * column
        parts.append(f'<rect x="{at}" y="{y}" width="14" height="14" fill="{COLOURS[name]}" stroke="#999"/>')
        parts.append(_words(at + 20, y + 12, word))
    return parts


def _words(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
