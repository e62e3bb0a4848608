"""The badge: "survives | 27 of 28, 1 problem" as a self-contained SVG picture for a README."""

from __future__ import annotations

from chaoskit.engine.result import ACCEPTED, SKIPPED
from chaoskit.report.html.suite_page import counts
from chaoskit.report.problem_words import counted
from chaoskit.studies.nights.suite import Suite

LABEL = "survives"
#: White text has enough contrast on each of these.
COLOURS = {
    "pass": "#00704f", ACCEPTED: "#4a3fb5", "fail": "#b23c00", "inconclusive": "#7c5a00", SKIPPED: "#59626b",
}  # fmt: skip
HEIGHT = 20
#: In pixels: average width of a letter, and margin beside the text.
LETTER, MARGIN = 6.6, 7


def words(suite: Suite) -> str:
    """Return '27 of 28', the number of problems, or of weaknesses alone, and that of undecided experiments."""
    found = counts(suite.results)
    judged = sum(count for verdict, count in found.items() if verdict != SKIPPED)
    if not judged:
        return "nothing was tested"
    parts = [f"{found.get('pass', 0)} of {judged}"]
    if accepted := found.get(ACCEPTED):
        parts.append(f"{accepted} accepted")
    problems = suite.problems
    if real := sum(not problem.weakness for problem in problems):
        parts.append(counted(real, "problem"))
    elif problems:
        parts.append(counted(len(problems), "weakness"))
    if undecided := found.get("inconclusive"):
        parts.append(f"{undecided} inconclusive")
    if unrun := sum(result.is_unrun for result in suite.results):
        parts.append(f"{unrun} not run")
    if suite.status == "interrupted":
        parts.append("interrupted")
    return ", ".join(parts)


def svg(suite: Suite) -> str:
    """Return the badge as SVG."""
    text = words(suite)
    worst = next(iter(counts(suite.results)), SKIPPED)
    whole = suite.status == "finished" and not any(result.is_unrun for result in suite.results)
    colour = COLOURS["inconclusive" if worst in ("pass", ACCEPTED) and not whole else worst]
    left, right = (round(len(part) * LETTER) + 2 * MARGIN for part in (LABEL, text))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" role="img" '
        f'aria-label="chaoskit: {LABEL} {text}">\n'
        f"<title>chaoskit: {LABEL} {text}</title>\n"
        f'<clipPath id="r"><rect width="{left + right}" height="{HEIGHT}" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#r)"><rect width="{left}" height="{HEIGHT}" fill="#3b444c"/>'
        f'<rect x="{left}" width="{right}" height="{HEIGHT}" fill="{colour}"/></g>\n'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">\n'
        f"{_text(left / 2, left, LABEL)}\n{_text(left + right / 2, right, text)}\n</g>\n</svg>\n"
    )


def _text(middle: float, width: int, text: str) -> str:
    """Return text with a fixed width, independent of the font."""
    return f'<text x="{middle:g}" y="14" textLength="{width - 2 * MARGIN}">{text}</text>'
