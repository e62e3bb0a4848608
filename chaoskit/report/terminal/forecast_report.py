"""The report of `chaoskit forecast` in the terminal: the sentence, the causes, the interval, the gains, the footing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.report.machine.json_report import write_text
from chaoskit.studies.forecast.answer import Forecast
from chaoskit.studies.forecast.assumptions import duration
from chaoskit.studies.forecast.document import document
from chaoskit.studies.forecast.inputs import ForecastNumber
from chaoskit.studies.forecast.sentences import footing, minutes, money, percent, summary


def show(found: Forecast, console: Console, *, every: bool = False) -> None:
    """Print the forecast; `every` also prints each number that it takes, not only those that are not assumed."""
    console.print(Text(summary(found), style="bold"), soft_wrap=True)
    nothing = found.measured is None
    console.print(Text(footing(found), style="bold yellow" if nothing else ""), soft_wrap=True)
    console.print()
    for line in facts(found):
        console.print(Text(line), soft_wrap=True)
    console.print()
    rows = [
        (each.name, duration(each.seconds), f"{100 * each.share:.0f} %", money(each.usd, 3))
        for each in found.causes
        if each.seconds
    ]
    if rows:
        console.print(_table(("lost to", "time of the job", "share", "money"), rows))
        console.print()
    for line in interval_lines(found):
        console.print(Text(line), soft_wrap=True)
    if found.gains:
        console.print()
        console.print(_table(("improvement", "gains", "95 % from", "to", "how"), gain_rows(found)))
    shown = [each for each in found.inputs.figures if every or each.origin != "assumed"]
    console.print()
    if shown:
        console.print(_table(("number", "value", "from", "source"), map(_row, shown)))
    rest = len(found.inputs.figures) - len(shown)
    if rest:
        told = f"{rest} assumed numbers: -v, -o and --json show them; --assume NAME=VALUE replaces one"
        console.print(Text(f"and {told}" if shown else told), soft_wrap=True)


def facts(found: Forecast) -> list[str]:
    """The chance of no interruption, the spread of the result, and how it was found."""
    count, share = found.interruptions, found.goodput
    lines = [
        f"no interruption at all: {percent(found.uninterrupted)}",
        f"interruptions: {count.mean:,.1f} on average, {count.p5:,.0f} to {count.p95:,.0f} in nine jobs of ten",
        f"time that trains: {percent(share.mean)} on average, {percent(share.p5)} to {percent(share.p95)} in nine of "
        "ten",
    ]
    if found.days is not None:
        late = found.days
        lines.append(
            f"days until done: {late.mean:,.1f} on average, {late.p5:,.1f} to {late.p95:,.1f} in nine of ten "
            f"({found.request.days:g} if nothing failed)"
        )
    if found.finished < 1:
        lines.append(
            f"{percent(1 - found.finished)} of the jobs are not done within ten times their training time"
        )
    lines.append(f"by {found.trials:,} simulated jobs (seed {found.seed})")
    return lines


def interval_lines(found: Forecast) -> list[str]:
    """The checkpoint interval: today, by the formulas, by simulation."""
    own = found.intervals
    parts = [f"today {minutes(own.present)}"]
    if own.young is not None and own.daly is not None:
        parts += [f"Young {minutes(own.young)}", f"Daly {minutes(own.daly)}"]
    same = "" if own.best != own.present else " (no other one is better for certain)"
    return [f"checkpoint interval: {', '.join(parts)}, simulation {minutes(own.best)}{same}"]


def gain_rows(found: Forecast) -> list[tuple[str, ...]]:
    """What each improvement gains, the largest first."""
    return [
        (each.name, *(money(found.usd(value), 3) for value in (each.seconds, each.low, each.high)), each.change)
        for each in found.gains
    ]


def write(found: Forecast, target: str) -> None:
    """Write the document to a file, or to standard output for `-`."""
    write_text(json.dumps(document(found), indent=2) + "\n", target)


def _row(figure: ForecastNumber) -> tuple[str, ...]:
    return figure.name, figure.shown, figure.origin, figure.source


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    numbers = {"time of the job", "share", "money", "gains", "95 % from", "to", "value"}
    for head in heads:
        made.add_column(
            head, justify="right" if head in numbers else "left", no_wrap=head in numbers, overflow="fold"
        )
    for row in rows:
        made.add_row(*row)
    return made
