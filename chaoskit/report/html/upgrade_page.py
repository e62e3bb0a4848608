"""The HTML page of an upgrade: answer, exchanged checkpoints, versions, experiments.

For tests and style sheets: sections have ids: `#answer`, `#checkpoints`, `#versions`, `#experiments`. The table of the
checkpoints is `table.border`; its cells, and the `article.crossing` of each, say their `data-verdict`.
"""

from __future__ import annotations

from chaoskit.errors import CODES, ExitCode
from chaoskit.report.html import page
from chaoskit.report.terminal import compare_report, upgrade_report
from chaoskit.studies.upgrade.crossing import WORDS
from chaoskit.studies.upgrade.upgrade import Upgrade
from chaoskit.verdict import Outcome

#: For each exit code: a verdict, which selects the style, and a word.
ANSWERS = {
    ExitCode.PASS: ("pass", "nothing got worse"),
    ExitCode.FAIL: ("fail", "worse"),
    ExitCode.INCONCLUSIVE: ("inconclusive", "inconclusive"),
}
#: The style of a change.
DIRECTIONS = {"worse": "fail", "better": "pass", "unknown": "inconclusive"}


def render(one: Upgrade) -> str:
    """Render the page of the findings so far."""
    verdict, word = ANSWERS[one.exit_code]
    comparison = one.comparison
    return page.render(
        "upgrade.html.j2",
        one=one,
        verdict=verdict,
        word=word,
        answer=upgrade_report.answer(one).partition(": ")[2],
        told=sorted(one.crossings, key=lambda each: (each.outcome is Outcome.PASS, each.is_control)),
        find=upgrade_report.find,
        words=WORDS,
        versions=list(upgrade_report.versions(one)),
        alone=list(upgrade_report.alone(one)),
        changes=comparison.changes if comparison is not None else (),
        looks=DIRECTIONS,
        meanings=CODES,
        references=[
            (compare_report.headline(drift), list(compare_report.details(drift)))
            for drift in (comparison.drifts if comparison is not None else ())
        ],
        flags=list(upgrade_report.flags(one)) if comparison is not None else [],
        times=[each for each in comparison.times if each.pairs] if comparison is not None else [],
        about=compare_report.about,
        ratio=compare_report.ratio,
        judged=compare_report.JUDGED,
        duration=compare_report.duration,
    )
