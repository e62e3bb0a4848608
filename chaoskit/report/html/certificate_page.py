"""The HTML page of a certificate: the answer, what it is of, and a row for each claim with the runs that prove it.

For tests and style sheets: sections have ids: `#answer`, `#rows`, `#evidence`; each row is a `tr` with its id and its
`data-state`.
"""

from __future__ import annotations

from chaoskit.errors import CODES
from chaoskit.report import certificate_words as words
from chaoskit.report.html import page
from chaoskit.studies.certificate.certificate import Certificate
from chaoskit.studies.certificate.row import STATES, State

#: The states whose rows the page names first.
OPEN: tuple[State, ...] = ("failed", "not-tested", "accepted")


def render(one: Certificate) -> str:
    """Render the page."""
    return page.render(
        "certificate.html.j2",
        one=one,
        style_of=words.STYLES,
        verdict=words.ANSWER_STYLES[one.answer],
        counts=words.counts(one),
        open=[(state, rows) for state in OPEN if (rows := [row for row in one.rows if row.state == state])],
        words=STATES,
        facts=list(words.facts(one)),
        figures=words.figures,
        meanings=CODES,
    )
