"""The report of `chaoskit upgrade` in the terminal and as JSON: versions, experiments, exchanged checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.errors import ExitCode
from chaoskit.protocol.secret_words import redact_words
from chaoskit.report.machine import compare_json
from chaoskit.report.machine.json_report import write_text
from chaoskit.report.terminal import compare_report
from chaoskit.report.terminal.table import STYLES
from chaoskit.studies.nights.comparison import counted
from chaoskit.studies.upgrade.crossing import WORDS, Crossing, Side
from chaoskit.studies.upgrade.interpreter import FIRST
from chaoskit.studies.upgrade.upgrade import Upgrade

SCHEMA = 1
#: The exit codes as words in JSON.
ANSWERS = {ExitCode.PASS: "same", ExitCode.FAIL: "worse"}


def show_versions(one: Upgrade, console: Console) -> None:
    """Print the two interpreters and their versions, which are known before anything runs."""
    for side in one.sides:
        console.print(Text(f"{side.name}  {side.interpreter.path}"), soft_wrap=True)
    console.print()
    console.print(versions_table(one))
    console.print()


def show(one: Upgrade, console: Console) -> None:
    """Print the experiments, the checkpoints and the answer."""
    for part in (_experiments, _crossings):
        console.print()
        part(one, console)
    console.print()
    console.print(Text(answer(one), style="bold"), soft_wrap=True)


def versions(one: Upgrade) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the versions of the main packages, then those of other packages in both that differ."""
    old, new = one.old.interpreter, one.new.interpreter
    for name in FIRST:
        if name in old.versions or name in new.versions:
            yield name, old.versions.get(name), new.versions.get(name)
    for name, (a, b) in one.differences.items():
        if name not in FIRST and a is not None and b is not None:
            yield name, a, b


def alone(one: Upgrade) -> Iterator[tuple[str, list[str]]]:
    """Yield for each side the packages that only it has."""
    for at, side in enumerate(one.sides):
        names = [
            name
            for name, both in one.differences.items()
            if name not in FIRST and both[at] and both[1 - at] is None
        ]
        if names:
            yield side.name, names


def versions_table(one: Upgrade) -> Table:
    """Make the table of versions; differences are bold."""
    table = _table("", "old", "new")
    for name, a, b in versions(one):
        style = "" if a == b else "bold"
        table.add_row(name, Text(a or "-", style=style), Text(b or "-", style=style))
    for name, names in alone(one):
        count = f"{len(names)} more package{'' if len(names) == 1 else 's'}"
        table.add_row(f"only {name}", *((count, "") if name == "old" else ("", count)))
    return table


def _experiments(one: Upgrade, console: Console) -> None:
    for side in one.sides:
        if (suite := one.suites.get(side.name)) is not None:
            console.print(Text(f"{side.name}  {compare_report.about(suite)}"), soft_wrap=True)
    if one.comparison is None:
        console.print(Text("the experiments did not run under both interpreters"), soft_wrap=True)
        return
    for line, style in experiments(one):
        console.print(Text(line, style=style), soft_wrap=True)
    if any(each.pairs for each in one.comparison.times):
        console.print()
        console.print(compare_report.times_table(one.comparison))


def experiments(one: Upgrade) -> Iterator[tuple[str, str]]:
    """Yield the changes of the experiments as lines with their style."""
    assert one.comparison is not None
    for change in one.comparison.changes:
        head = f"{change.name.rpartition('::')[2]}: {compare_report.verdict(change.old)}"
        yield (
            f"{change.direction.upper()} {head} → {compare_report.verdict(change.new)}",
            compare_report.DIRECTIONS[change.direction],
        )
        for sentence in change.new.sentences:
            yield from ((f"  {line}", "") for line in sentence.splitlines())
    if not one.comparison.changes:
        yield f"{counted(len(one.comparison.pairs), 'experiment')} under both interpreters: no verdict differs", ""
    yield from ((line, "") for line in compare_report.references(one.comparison))
    yield from ((line, "") for line in flags(one))


def flags(one: Upgrade) -> Iterator[str]:
    """Yield the versions and flags recorded by the ranks that differ and are not in the table of versions."""
    assert one.comparison is not None
    for each in one.comparison.settings:
        if each.source == "ranks" and each.name not in one.differences:
            yield f"recorded by the ranks: {each.name} {each.old or '-'} → {each.new or '-'}"


def _crossings(one: Upgrade, console: Console) -> None:
    if not one.crossings:
        console.print(Text("no checkpoint was exchanged between old and new"), soft_wrap=True)
        return
    console.print(crossings_table(one))
    for crossing in one.crossings:
        console.print()
        head = Text(f"{crossing.saved} → {crossing.resumed}: ", style="bold")
        head.append(WORDS[crossing.word], style=STYLES[crossing.outcome.value])
        head.append(f" ({', '.join(crossing.codes)})" if crossing.codes else "")
        console.print(head, soft_wrap=True)
        for line in lines(crossing):
            console.print(Text(f"  {line}"), soft_wrap=True)


def lines(one: Crossing) -> Iterator[str]:
    """Yield the lines about one checkpoint."""
    yield from one.sentence.splitlines()
    if one.run:
        yield f"explain  chaoskit explain {one.place}"


def crossings_table(one: Upgrade) -> Table:
    """Make the table of checkpoints: rows saved by, columns resumed by."""
    table = _table("saved by", *(f"resumed by {side.name}" for side in one.sides))
    for saves in one.sides:
        cells = (_cell(find(one, saves, resumes)) for resumes in one.sides)
        table.add_row(saves.name, *cells)
    return table


def find(one: Upgrade, saves: Side, resumes: Side) -> Crossing | None:
    """Return the crossing from one side to the other; None if it has not run."""
    both = saves.name, resumes.name
    return next((each for each in one.crossings if (each.saved, each.resumed) == both), None)


def cell(one: Crossing | None) -> str:
    """'resumes exactly, from step 40'."""
    if one is None:
        return "not tested"
    return WORDS[one.word] + (f", from step {one.position}" if one.position is not None else "")


def _cell(one: Crossing | None) -> Text:
    return Text(cell(one), style=STYLES[one.outcome.value] if one is not None else "dim")


def answer(one: Upgrade) -> str:
    """Summarize the effect of the upgrade in one sentence."""
    untold = f"; undecided: {'; '.join(one.untold)}" if one.untold else ""
    if one.worse:
        return f"WORSE: {'; '.join(one.worse)}{untold}"
    parts = []
    if one.comparison is not None:
        parts.append(f"{counted(len(one.comparison.pairs), 'experiment')} under both interpreters, none worse")
    parts += [crossing.phrase for crossing in one.crossings if not crossing.is_control]
    text = "; ".join(parts)
    return f"INCONCLUSIVE: {text}{untold}" if one.untold else f"NOTHING GOT WORSE: {text}"


def document(one: Upgrade) -> dict[str, Any]:
    """Return everything as JSON; `docs/reference/format.md` documents schema 1."""
    return {
        "schema": SCHEMA,
        "answer": ANSWERS.get(one.exit_code, "unknown"),
        "exit_code": int(one.exit_code),
        "sentence": answer(one),
        "worse": list(one.worse),
        "untold": list(one.untold),
        "old": _side(one, one.old),
        "new": _side(one, one.new),
        "versions": {name: list(both) for name, both in one.differences.items()},
        "band": one.band.to_json() if one.band is not None else None,
        "crossings": [each.to_json() for each in one.crossings],
        "compare": compare_json.document(one.comparison) if one.comparison is not None else None,
    }


def _side(one: Upgrade, side: Side) -> dict[str, Any]:
    suite = one.suites.get(side.name)
    return {
        **side.interpreter.to_json(),
        "command": redact_words(side.job.command),
        "suite": suite.id if suite is not None else None,
        "failed": side.failed,
    }


def write(one: Upgrade, target: str) -> None:
    """Write the document to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(document(one), indent=2) + "\n", target)


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table
