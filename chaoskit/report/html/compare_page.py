"""The HTML page of a comparison of two suites: answer, changed verdicts, references, settings, times.

For tests and style sheets: sections have ids: `#answer`, `#verdicts`, `#references`, `#settings`, `#times`. A pair of
references is an `article.reference`, `.apart` if they diverge; its picture is `svg.gaps` with `.gap-line`, `.gap-dot`,
`.endless` and `.parting`. Elements without content are omitted.
"""

from __future__ import annotations

from chaoskit.errors import CODES, ExitCode
from chaoskit.report.html import page
from chaoskit.report.svg.gap_picture import picture
from chaoskit.report.terminal import compare_report
from chaoskit.studies.nights.comparison import SuiteComparison

#: For each exit code: a verdict, which selects the style, and a word.
ANSWERS = {
    ExitCode.PASS: ("pass", "nothing is worse"),
    ExitCode.FAIL: ("fail", "worse"),
    ExitCode.INCONCLUSIVE: ("inconclusive", "inconclusive"),
}
#: The style of a change.
DIRECTIONS = {"worse": "fail", "better": "pass", "unknown": "inconclusive"}


def render(one: SuiteComparison, *, times: bool = False) -> str:
    """Render the page; with `times`, slower times count as worse."""
    verdict, word = ANSWERS[one.exit_code(times=times)]
    word = "better" if one.better and verdict == "pass" else word
    return page.render(
        "compare.html.j2",
        one=one,
        verdict=verdict,
        word=word,
        answer=compare_report.answer(one, times=times).partition(": ")[2],
        changes=sorted(one.changes, key=lambda change: list(DIRECTIONS).index(change.direction)),
        looks=DIRECTIONS,
        meanings=CODES,
        references=[
            (drift, compare_report.headline(drift), list(compare_report.details(drift)), picture(drift))
            for drift in one.drifts
        ],
        unkept=compare_report.named(one.unkept) if one.unkept else "",
        times=[each for each in one.times if each.pairs],
        about=compare_report.about,
        ratio=compare_report.ratio,
        judged=compare_report.JUDGED,
        explained=compare_report.explained(one),
        duration=compare_report.duration,
    )
