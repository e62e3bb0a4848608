"""The badge: "survives | 27 of 28" as a small picture (SVG) for a README, which needs nothing but itself."""

from __future__ import annotations

from chaoskit.report.suite_page import counts
from chaoskit.results import SKIPPED
from chaoskit.suites.suite import Suite

LABEL = "survives"
#: White words can be read on each of these.
COLOURS = {"pass": "#00704f", "fail": "#b23c00", "inconclusive": "#7c5a00", SKIPPED: "#59626b"}
HEIGHT = 20
#: In pixels: of a letter of the size used, on average, and beside the words.
LETTER, MARGIN = 6.6, 7


def words(suite: Suite) -> str:
    """'27 of 28', and what has to be known about the others."""
    found = counts(suite.results)
    judged = sum(count for verdict, count in found.items() if verdict != SKIPPED)
    if not judged:
        return "nothing was tested"
    told = [f"{found.get('pass', 0)} of {judged}"]
    if undecided := found.get("inconclusive"):
        told.append(f"{undecided} undecided")
    if suite.status == "interrupted":
        told.append("interrupted")
    return ", ".join(told)


def svg(suite: Suite) -> str:
    """The picture."""
    said = words(suite)
    worst = next(iter(counts(suite.results)), SKIPPED)
    colour = COLOURS["inconclusive" if worst == "pass" and suite.status != "finished" else worst]
    left, right = (round(len(text) * LETTER) + 2 * MARGIN for text in (LABEL, said))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" role="img" '
        f'aria-label="chaoskit: {LABEL} {said}">\n'
        f"<title>chaoskit: {LABEL} {said}</title>\n"
        f'<clipPath id="r"><rect width="{left + right}" height="{HEIGHT}" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#r)"><rect width="{left}" height="{HEIGHT}" fill="#3b444c"/>'
        f'<rect x="{left}" width="{right}" height="{HEIGHT}" fill="{colour}"/></g>\n'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">\n'
        f"{_text(left / 2, left, LABEL)}\n{_text(left + right / 2, right, said)}\n</g>\n</svg>\n"
    )


def _text(middle: float, width: int, said: str) -> str:
    """Words that are as wide as their place, whatever font is there."""
    return f'<text x="{middle:g}" y="14" textLength="{width - 2 * MARGIN}">{said}</text>'
