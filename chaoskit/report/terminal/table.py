"""The results in the terminal: a table of experiments, then the failures with their explanation and commands."""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaoskit.analysis.record.rank_lifetime import component_order
from chaoskit.analysis.record.steps import readable
from chaoskit.engine.code_sentences import capital
from chaoskit.engine.plain_console import PlainConsole
from chaoskit.engine.result import ACCEPTED, ERROR, SKIPPED, UNRUN, WORDS, Result, WatchedSteps
from chaoskit.engine.run_store import NAME
from chaoskit.engine.terminal_text import one_line, printable
from chaoskit.remedies import remedies

STYLES = {
    "pass": "green", ACCEPTED: "cyan", "fail": "bold red", "inconclusive": "bold yellow", SKIPPED: "dim",
    ERROR: "bold magenta",
    UNRUN: "dim",
}  # fmt: skip
NARROWEST = 80
#: Terminals of this width also show the times until a fault was noticed and until all ranks had stopped.
WIDE = 110
#: What the marks of the tables mean.
DASH = "- there is nothing to tell, or it was not seen"
MARKS = "The step of the reference that each component matches; ! not the one that is due; - not seen"
#: What a cell means that matches several steps.
SEVERAL = (
    "Several steps, or any: the component is the same in all of them; 10 (any): among them is the one that is due"
)
#: So many errors of the probe are shown.
ERRORS = 5


def console_for(stream: TextIO) -> Console:
    """Make a console of the terminal's width; without a terminal 80 columns and no colours."""
    narrow = None if stream.isatty() else int(os.environ.get("COLUMNS") or NARROWEST)
    console = PlainConsole(stream, width=narrow)
    return console if console.width >= NARROWEST else PlainConsole(stream, width=NARROWEST)


def show(
    results: Sequence[Result], console: Console, *, seconds: float | None = None, look: str | None = None
) -> None:
    """Print the table, the explanations and the total; if something did not pass, also the line `look`."""
    if results:
        show_rows(results, console)
    for group in _alike(results):
        console.print()
        explain(group, console)
    errors = dict.fromkeys(error for result in results for error in result.probe_errors)
    for error in list(errors)[:ERRORS]:
        console.print(Text(printable(f"error of the probe: {error}"), style="bold yellow"), soft_wrap=True)
    if len(errors) > ERRORS:
        console.print(Text(f"and {len(errors) - ERRORS} more errors of the probe"), soft_wrap=True)
    passed = [result.run_path for result in results if result.verdict == "pass" and result.run_path]
    if passed:
        console.print()
        where = passed[0] if len(passed) == 1 else Path(passed[0]).parent
        console.print(Text(f"{'run stored in' if len(passed) == 1 else 'runs stored in'} {where}"), soft_wrap=True)
    for line in accepted_lines(results):
        console.print(Text(line, style=STYLES[ACCEPTED]), soft_wrap=True)
    console.print()
    console.print(Text(total(results, seconds=seconds), style="bold"), soft_wrap=True)
    if look and unsettled(results):
        console.print(Text(look), soft_wrap=True)


def show_rows(results: Sequence[Result], console: Console) -> None:
    """Print the table and, if a cell has a dash, what it means."""
    table = experiments_table(results, wide=console.width >= WIDE)
    console.print(table)
    if any(str(cell) == "-" for column in table.columns for cell in column.cells):
        console.print(Text(DASH, style="dim"), soft_wrap=True)


def accepted_lines(results: Iterable[Result]) -> list[str]:
    """Return one line for each code that is accepted: how many experiments show it, and why it is accepted."""
    found: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for code in result.accepted:
            found.setdefault((code, result.reasons.get(code, "")), []).append(_name(result))
    return [
        printable(
            f"accepted: {code}, shown by {names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {why}"
        )
        for (code, why), names in found.items()
    ]


def look_at(what: str, root: Path | None = None, *, report: Path | None = None) -> str:
    """Say how to get the HTML pages of `what`, stored below `root`, or where they are if a `report` was written."""
    if report is not None:
        return f"HTML report: {report / 'index.html'}"
    elsewhere = "" if root in (None, Path.cwd() / NAME) else f" --dir {shlex.quote(str(root))}"
    return f"HTML report: chaoskit report {what}{elsewhere}"


def unsettled(results: Iterable[Result]) -> bool:
    """Whether any experiment failed or was inconclusive."""
    return any(result.verdict in ("fail", "inconclusive") for result in results)


def console_in_memory(*, width: int = NARROWEST, colours: bool = False) -> Console:
    """Make a console whose output `printed` returns."""
    system: Literal["standard"] | None = "standard" if colours else None
    return PlainConsole(io.StringIO(), width=max(width, NARROWEST), force_terminal=colours, color_system=system)


def printed(console: Console) -> str:
    """What was printed to a console in memory."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def explanation(result: Result) -> str:
    """Explain why one experiment did not pass, as the message of an exception; lines with paths are not wrapped."""
    console = console_in_memory(width=110)
    _details([result], console, bare=True)
    codes = printable(f"{', '.join(result.codes)}: ") if result.codes else ""
    return codes + "\n".join(line.rstrip() for line in printed(console).strip().splitlines())


def experiments_table(results: Iterable[Result], *, wide: bool = False) -> Table:
    """Make a table with one row for each experiment; a `wide` one also has the times of detection and of the stop.
    Where a notice of preemption was given, it has the time from that to a settled checkpoint, and the grace that would
    just have sufficed.
    """
    results = list(results)
    notices = any(r.sufficient_grace is not None for r in results)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("experiment", overflow="fold", ratio=None)
    table.add_column("verdict", no_wrap=True)
    detection = ("noticed", "stopped") if wide else ()
    saving = ("saved\nafter", "grace\nneeded") if notices else ()
    for name in ("resumed\nfrom", "last\nvalid", "steps\nlost", *saving, *detection, "recovery", "time"):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    for r in results:
        table.add_row(
            Text(_name(r)),
            Text(r.word, style=STYLES[r.word]),
            _number(r.resumed_from),
            _number(r.last_valid),
            _number(r.steps_lost),
            *((_seconds(r.saved_seconds), _seconds(r.sufficient_grace)) if notices else ()),
            *((_seconds(r.noticed_seconds), _seconds(r.stopped_seconds)) if wide else ()),
            _seconds(r.recovery_seconds),
            _seconds(r.seconds),
        )
    return table


def explain(group: Sequence[Result], console: Console) -> None:
    """Explain why these experiments, which have the same findings, did not pass."""
    first = group[0]
    rank = " (weakness)" if first.weakness else ""
    head = Text(f"{first.word.upper()}{rank}", style=STYLES[first.word])
    head.append(f" {', '.join(map(_name, group))}", style="bold")
    if first.codes:
        head.append(f": {printable(', '.join(first.codes))}")
    console.print(head, soft_wrap=True)
    _details(group, console)


def _details(group: Sequence[Result], console: Console, *, bare: bool = False) -> None:
    """Print why; `bare` sentences, without a capital and a full stop, follow codes in the message of an exception."""
    first = group[0]
    for sentence in first.sentences:
        text = readable(sentence) if bare else capital(readable(sentence))
        for line in printable(text.replace("\r\n", "\n")).splitlines():
            console.print(Text(f"  {line}"), soft_wrap=True)
    if first.table:
        console.print(Padding(alignment_table(first.table), (0, 0, 0, 2), expand=False))
        cells = [str(cell) for row in first.table for cell in row["cells"].values()]
        several = any(mark in cell for cell in cells for mark in ("any", "…", ","))
        for line in (MARKS, SEVERAL)[: 1 + several]:
            console.print(Text(f"  {line}", style="dim"), soft_wrap=True)
    for rank, stack in first.stacks.items():
        console.print(Text(f"  stack of rank {rank}:"), soft_wrap=True)
        for line in printable(stack).splitlines():
            console.print(Text(f"    {line}", style="dim"), soft_wrap=True)
    for _, remedy in remedies(first.codes, first.advice):
        console.print(Text(f"  remedy  {remedy}"), soft_wrap=True)
    for line in dict.fromkeys(line for result in group for line in commands(result)):
        console.print(Text(line), soft_wrap=True)


def commands(result: Result) -> list[str]:
    """Return the directory of a run and the commands that explain and repeat it."""
    path = result.run_path
    if not path:
        return []
    lines = [f"  run     {path}"]
    # The run of a failed reference has no verdicts that could be repeated.
    if Path(path).parent.name == "runs":
        lines += [
            f"  explain chaoskit explain {shlex.quote(path)}",
            f"  repeat  chaoskit replay {shlex.quote(path)}",
        ]
    return lines


def alignment_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Show the reference step that each component matches; '!' marks one that is not the expected step."""
    columns = columns_of(rows)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for name in ("life-\ntime", "rank", "due"):
        table.add_column(name, justify="right", vertical="bottom")
    for name in columns:
        table.add_column(name.replace(".", ".\n"), justify="right", vertical="bottom", overflow="fold")
    for row in rows:
        due = row.get("expected")
        cells = [_cell(row["cells"].get(name), due) for name in columns]
        table.add_row(str(row["incarnation"]), str(row["rank"]), _number(due), *cells)
    return table


def columns_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the components of an alignment in the order of the tables; parts of a component stand together."""
    return sorted({name for row in rows for name in row["cells"]}, key=component_order)


def is_due(cell: object, due: object) -> bool:
    """Whether the cell of a component names the expected step; True if none is expected."""
    return due is None or str(due) in re.findall(r"\d+", str(cell))


def total(results: Sequence[Result], *, seconds: float | None = None) -> str:
    """'11 experiments in 93.1 s, launched warm: 10 passed, 1 failed', and the time spent waiting."""
    words = {**WORDS, UNRUN: UNRUN, ERROR: f"{ERROR}{'' if sum(r.word == ERROR for r in results) == 1 else 's'}"}
    counted = [(word, sum(r.word == verdict for r in results)) for verdict, word in words.items()]
    counts = ", ".join(f"{count} {word}" for word, count in counted if count) or "no experiment ran"
    time = f" in {seconds:.1f} s" if seconds is not None else ""
    launched, waits = _launched(results), _waits(results)
    return (
        f"{len(results)} experiment{'' if len(results) == 1 else 's'}{time}"
        f"{f', {launched}' if launched else ''}: {counts}{f' ({waits})' if waits else ''}"
        f"{f'; {watched}' if (watched := windows(results)) else ''}"
    )


def took(results: Sequence[Result], *, seconds: float | None = None) -> str:
    """'93.1 s, launched warm, 12 s of it spent waiting'; empty if nothing is known."""
    time = f"{seconds:.1f} s" if seconds is not None else ""
    return ", ".join(filter(None, (time, _launched(results), _waits(results), windows(results))))


def windows(results: Sequence[Result]) -> str:
    """'34 experiments in windows of 24 to 61 steps of 6,000, 2 of them also whole, 1 trained to the end, 3 whole';
    empty if every experiment was run whole."""
    watched = [result for result in results if result.watched]
    if not watched:
        return ""
    every = [steps for result in watched for steps in result.watched]
    of = max(steps["of"] for steps in every)
    spans = [steps["last"] - steps["first"] + 1 for steps in every if steps["last"] < steps["of"]]
    also = sum(any(_is_whole(steps) for steps in result.watched) for result in watched)
    on = sum(any(_to_end(steps) for steps in result.watched) for result in watched)
    whole = sum(bool(result.runs) and not result.watched for result in results)
    if spans:
        span = f"{min(spans):,} to {max(spans):,}" if min(spans) < max(spans) else f"{max(spans):,}"
        first = f"{len(watched)} experiment{'s' if len(watched) > 1 else ''} in windows of {span} steps of {of:,}"
    else:
        first = f"{len(watched)} experiment{'s' if len(watched) > 1 else ''} in windows of up to {of:,} steps"
    told = [first, f"{also} of them also whole" * bool(also), f"{on} trained to the end" * bool(on)]
    return ", ".join(filter(None, [*told, f"{whole} whole" * bool(whole)]))


def _is_whole(steps: WatchedSteps) -> bool:
    return steps["first"] == 1 and steps["last"] == steps["of"]


def _to_end(steps: WatchedSteps) -> bool:
    return steps["last"] >= steps["of"] and not _is_whole(steps)


def _launched(results: Sequence[Result]) -> str:
    how = "; ".join(dict.fromkeys(each for r in results for each in r.launched if each))
    return f"launched {how}" if how else ""


def _waits(results: Sequence[Result]) -> str:
    waited = sum(r.waited_seconds for r in results)
    return f"{waited:.0f} s of it spent waiting for timeouts and freezes" if waited >= 1 else ""


def _alike(results: Sequence[Result]) -> list[list[Result]]:
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        if result.verdict not in ("pass", ACCEPTED):
            alone = result.name if result.table else ""
            key = (result.verdict, result.codes, result.sentences, result.run, alone)
            groups.setdefault(key, []).append(result)
    return list(groups.values())


def _name(result: Result) -> str:
    return one_line(result.name)


def _cell(text: object, due: object) -> Text:
    if text is None:
        return Text("-", style="dim")
    if is_due(text, due):
        return Text(str(text))
    return Text(f"{text}!", style="bold red")


def _number(value: object) -> str:
    return "-" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
