"""The page of an upgrade: the answer, the checkpoints across the border, the versions, the experiments.

For tests and style sheets: sections have ids: `#answer`, `#checkpoints`, `#versions`, `#experiments`. The table of the
checkpoints is `table.border`; its cells, and the `article.crossing` of each, say their `data-verdict`.
"""

from __future__ import annotations

from chaoskit.errors import CODES, ExitCode
from chaoskit.report import compare_report, page, upgrade_report
from chaoskit.upgrade.crossing import WORDS
from chaoskit.upgrade.upgrade import Upgrade
from chaoskit.verdict import Outcome

#: The verdict that stands for the answer, and its word.
ANSWERS = {
    ExitCode.PASS: ("pass", "nothing got worse"),
    ExitCode.FAIL: ("fail", "worse"),
    ExitCode.INCONCLUSIVE: ("inconclusive", "cannot tell all"),
}
#: How a change of an experiment looks.
DIRECTIONS = {"worse": "fail", "better": "pass", "unknown": "inconclusive"}


def render(one: Upgrade) -> str:
    """The page of what was found so far."""
    verdict, word = ANSWERS[one.exit_code]
    contrast = one.contrast
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
        changes=contrast.changes if contrast is not None else (),
        looks=DIRECTIONS,
        meanings=CODES,
        references=[
            (compare_report.headline(drift), list(compare_report.details(drift)))
            for drift in (contrast.drifts if contrast is not None else ())
        ],
        flags=list(upgrade_report.flags(one)) if contrast is not None else [],
        times=[each for each in contrast.times if each.pairs] if contrast is not None else [],
        about=compare_report.about,
        ratio=compare_report.ratio,
        judged=compare_report.JUDGED,
        duration=compare_report.duration,
    )
