"""A certificate in GitHub-flavoured Markdown, to keep beside the job or to paste into a review."""

from __future__ import annotations

from chaoskit.report import certificate_words as words
from chaoskit.report.machine.summary import SYMBOLS, plain
from chaoskit.studies.certificate.certificate import Certificate
from chaoskit.studies.certificate.row import RowState


def markdown(one: Certificate) -> str:
    """Return the whole certificate as Markdown."""
    symbol = SYMBOLS[words.ANSWER_STYLES[one.answer]]
    text = f"# {symbol} {plain(words.headline(one))}\n\n"
    text += "".join(f"- {name}: {plain(value)}\n" for name, value in words.facts(one))
    text += "".join(f"- note: {plain(note)}\n" for note in one.notes)
    text += "\n| state | row | why | runs |\n|---|---|---|---|\n"
    text += "".join(_row(row) for row in one.rows)
    return f"{text}\nDigest over the evidence: `{one.evidence_digest}`\n"


def _row(row: RowState) -> str:
    state = f"{SYMBOLS[words.STYLES[row.state]]} {row.word}"
    parts = [row.sentence, words.figures(row), f"How: {row.how}" if row.how else ""]
    why = "<br>".join(plain(part) for part in parts if part)
    runs = "<br>".join(f"<code>{plain(run)}</code>" for run in row.runs)
    return f"| {state} | {plain(row.title)} | {why} | {runs} |\n"
