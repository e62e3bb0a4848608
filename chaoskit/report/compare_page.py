"""The page of two suites beside each other: the answer, the verdicts that changed, the references, the times.

For tests and style sheets: sections have ids: `#answer`, `#verdicts`, `#references`, `#settings`, `#times`. A pair of
references is an `article.reference`, `.apart` where they part; its picture is `svg.gaps` with `.gap-line`, `.gap-dot`,
`.endless` and `.parting`. What did not happen is not there.
"""

from __future__ import annotations

from chaoskit.errors import CODES, ExitCode
from chaoskit.report import compare_report, page
from chaoskit.report.gap_picture import picture
from chaoskit.suites.contrast import Contrast

#: The verdict that stands for the answer, and its word.
ANSWERS = {
    ExitCode.PASS: ("pass", "nothing is worse"),
    ExitCode.FAIL: ("fail", "worse"),
    ExitCode.INCONCLUSIVE: ("inconclusive", "cannot tell all"),
}
#: How a change looks.
DIRECTIONS = {"worse": "fail", "better": "pass", "unknown": "inconclusive"}


def render(one: Contrast, *, times: bool = False) -> str:
    """The page; with `times` what is slower counts as worse."""
    verdict, word = ANSWERS[one.exit_code(times=times)]
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
