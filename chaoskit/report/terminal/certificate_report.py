"""A certificate in the terminal: its rows, its answer, and what no longer holds of it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.report import certificate_words as words
from chaoskit.report.terminal.table import STYLES
from chaoskit.studies.certificate.certificate import Certificate
from chaoskit.studies.certificate.row import RowState
from chaoskit.studies.certificate.verification import Verification


def show(one: Certificate, console: Console) -> None:
    """Print a line for each row, how to test what was not tested, and the answer."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in ("state", "row", "why"):
        table.add_column(name, overflow="fold", no_wrap=name == "state")
    for row in one.rows:
        table.add_row(Text(row.word, style=_style(row)), row.title, Text(_why(row)))
    console.print(table)
    console.print()
    for note in one.notes:
        console.print(Text(f"Note: {note}"), soft_wrap=True)
    console.print(
        Text(words.headline(one), style=f"bold {STYLES[words.ANSWER_STYLES[one.answer]]}"), soft_wrap=True
    )


def show_verification(one: Verification, console: Console) -> None:
    """Print whether the certificate holds, and what does not hold any more."""
    made = one.certificate
    console.print(Text(f"{made.job}\ncertificate of {made.created}: {words.headline(made)}"), soft_wrap=True)
    if not one.broken:
        console.print(Text("It holds here and now: it is unedited, and its evidence, the sources, the versions, the "
                           "launcher and the machine are the same.", style="bold"), soft_wrap=True)  # fmt: skip
        return
    console.print(Text("It does not hold any more:", style="bold"), soft_wrap=True)
    for sentence in one.broken:
        console.print(Text(f"  {sentence}"), soft_wrap=True)
    console.print(Text("Make a new one: chaoskit certify -- COMMAND"), soft_wrap=True)


def _why(row: RowState) -> str:
    parts = [row.sentence, words.figures(row), f"How: {row.how}" if row.how else ""]
    return ". ".join(part for part in parts if part)


def _style(row: RowState) -> str:
    return STYLES[words.STYLES[row.state]]
