"""The report of `chaoskit history` in the terminal: a table for each job, then the changes of verdicts and times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.engine.terminal_text import one_line
from chaoskit.report.machine.json_report import write_text
from chaoskit.report.terminal.table import STYLES
from chaoskit.studies.nights.findings import FIGURES, Findings
from chaoskit.studies.nights.suite_history import Night, SettingChange, Track
from chaoskit.studies.nights.trends import ALPHA, LevelShift
from chaoskit.studies.nights.verdict_changes import Kind, VerdictTurn

SCHEMA = 1
#: A sign for each verdict, so that colour is not needed; a dot if the experiment did not run that night.
SIGNS = {"pass": "✓", "accepted": "≈", "fail": "✗", "inconclusive": "?", "skipped": "–"}
PLAIN = str.maketrans("✓≈✗–·", "+~x-.")
ABSENT = "·"
#: Maximum number of nights in a strip.
STRIP = 14
#: Maximum number of changes in a line; the JSON has all of them.
LISTED = 8
HEADS: dict[Kind, tuple[str, str]] = {
    "red": ("RED", STYLES["fail"]),
    "undecided": ("UNDECIDED", STYLES["inconclusive"]),
    "flaky": ("FLAKY", STYLES["inconclusive"]),
    "green": ("GREEN", STYLES["pass"]),
}


def show(findings: Findings, console: Console) -> None:
    """Print the tables, the changes of verdicts and times, the changed settings and the total."""
    for job in findings.history.jobs:
        console.print(
            Text(f"job {one_line(job)}" if job else "job unknown: these experiments never started a run"),
            soft_wrap=True,
        )
        console.print(table(findings, job, plain=not _can_sign(console)))
        console.print()
    for turn in findings.turns:
        head, style = HEADS[turn.kind]
        codes = f": {', '.join(turn.result.codes)}" if turn.result.codes else ""
        first, *rest = turn_lines(findings, turn)
        _finding(head, style, turn.track.name, [first + codes, *rest], console)
    for shift in findings.trends.shifts:
        head, style = ("SLOW", STYLES["fail"]) if shift.slower else ("FAST", STYLES["pass"])
        _finding(head, style, subject(shift), shift_lines(findings, shift), console)
    for line in versions(findings):
        console.print(Text(one_line(line)), soft_wrap=True)
    console.print(Text(tested(findings)), soft_wrap=True)
    console.print(Text(findings.sentence, style="bold"), soft_wrap=True)


def table(findings: Findings, job: str, *, plain: bool = False) -> Table:
    """Make a table with one row for each experiment: its last verdicts, then the last and the usual figures."""
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    made.add_column("experiment", overflow="fold")
    nights = min(STRIP, len(findings.history.nights))
    made.add_column(f"last {nights}\nnights" if nights > 1 else "night", no_wrap=True)
    for name in FIGURES:
        made.add_column(name, justify="right", no_wrap=True, vertical="bottom")
        made.add_column("usual", justify="right", no_wrap=True, vertical="bottom", style="dim")
    for track in findings.history.of_job(job):
        cells = []
        for name in FIGURES:
            figure = findings.figure(track, name)
            cells += [_cell(figure.last, name), _cell(figure.usual, name)]
        made.add_row(Text(one_line(track.name)), _strip(track, plain=plain), *cells)
    return made


def turn_lines(findings: Findings, turn: VerdictTurn) -> list[str]:
    """Describe an experiment whose verdict changed; the first line says since when."""
    nights = findings.history.nights
    if turn.kind == "flaky":
        alike = "nights with the same sources, options, versions and machine"
        count = f"{turn.bad} of {turn.of} {alike} did not pass"
        lines = [f"{count}, most recently {at(nights[turn.since])}"]
    else:
        lines = [f"since {at(nights[turn.since])}"]
    was = "before: " if turn.kind == "green" else ""
    lines += [was + line for sentence in turn.result.sentences for line in sentence.splitlines()[:1]]
    if turn.kind != "flaky":
        lines.append(_since(turn.changes, same=turn.same))
    last = turn.track.decided[-1][0]
    if last < len(nights) - 1:
        lines.append(f"not run since {at(nights[last])}")
    return [line for line in lines if line]


def subject(shift: LevelShift) -> str:
    """Name the time and the experiment of a shift."""
    what = {"whole": "total time"}.get(shift.series.measure, shift.series.measure)
    return f"{what} of {shift.series.name or 'all experiments together'}"


def shift_lines(findings: Findings, shift: LevelShift) -> list[str]:
    """Describe a shift: since when, by how much, and the settings that changed that night."""
    night = findings.history.nights[shift.at]
    ratio = (
        f"{shift.ratio:.2f} times the former value ({shift.low:.2f} to {shift.high:.2f}), adjusted for the night"
    )
    lines = [
        f"since {at(night)}: {ratio}",
        f"wall time: {shift.before:.2f} s before, {shift.after:.2f} s since",
        _since(shift.changes, same=False),
    ]
    if len({one.machine for one in findings.history.nights}) > 1:
        lines.append(f"on {shift.series.machine}")
    return [line for line in lines if line]


def versions(findings: Findings) -> Iterator[str]:
    """List the changed settings of all nights, job by job."""
    history = findings.history
    for job in history.jobs:
        for night in dict.fromkeys(change.at for change in history.changes(job)):
            yield f"changed {at(history.nights[night])}: {listed(history.changed(job, after=night - 1, until=night))}"


def tested(findings: Findings) -> str:
    """Say how many time series were tested, and how many were too short."""
    trends = findings.trends
    short = sum(bool(one.name) for one in trends.short)
    few = f"; {short} not tested because they have fewer than {trends.needed} nights" if short else ""
    if not trends.tested:
        return f"times: too few nights to test for a change (at least {trends.needed} are needed)"
    count = f"{len(trends.tested)} series tested for a change"
    return f"times: {count}, probability of any false alarm {ALPHA:.0%}{few}"


def listed(changes: Sequence[SettingChange]) -> str:
    """Name the changes, the first `LISTED` of them."""
    more = f" and {len(changes) - LISTED} more" if len(changes) > LISTED else ""
    return ", ".join(map(str, changes[:LISTED])) + more


def at(night: Night) -> str:
    """Identify a night by its time and its suite."""
    return f"{night.when} (suite {night.id})"


def strip(track: Track, *, plain: bool = False) -> str:
    """Return the verdicts of all nights as signs."""
    signs = "".join(ABSENT if result is None else SIGNS[result.verdict] for result in track.results)
    return signs.translate(PLAIN) if plain else signs


def document(findings: Findings, *, damaged: Sequence[str] = ()) -> dict[str, Any]:
    """Return everything as JSON; `docs/how-to/history.md` documents schema 1."""
    history = findings.history
    return {
        "schema": SCHEMA,
        "sentence": findings.sentence,
        "nights": [
            {"id": n.id, "created": n.created, "status": n.status, "machine": n.machine} for n in history.nights
        ],
        "experiments": [_entry(findings, track) for track in history.tracks],
        "turns": [_turn(findings, turn) for turn in findings.turns],
        "shifts": [_shift(findings, shift) for shift in findings.trends.shifts],
        "changes": [
            {"job": job, "night": history.nights[c.at].id, "name": c.name, "old": c.old, "new": c.new}
            for job in history.jobs
            for c in history.changes(job)
        ],
        "tested": len(findings.trends.tested),
        "too_short": len(findings.trends.short),
        "needed": findings.trends.needed,
        "damaged": list(damaged),
    }


def write(findings: Findings, target: str, *, damaged: Sequence[str] = ()) -> None:
    """Write the document to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(document(findings, damaged=damaged), indent=2) + "\n", target)


def _entry(findings: Findings, track: Track) -> dict[str, Any]:
    columns = {name: [None if r is None else read(r) for r in track.results] for name, read in FIGURES.items()}
    usual = {name: findings.figure(track, name).usual for name in FIGURES}
    verdicts = [None if result is None else result.verdict for result in track.results]
    return {"name": track.name, "job": track.job, "verdicts": verdicts, **columns, "usual": usual}


def _turn(findings: Findings, turn: VerdictTurn) -> dict[str, Any]:
    return {
        "kind": turn.kind, "name": turn.track.name, "job": turn.track.job,
        "since": findings.history.nights[turn.since].id, "bad": turn.bad, "of": turn.of,
        "codes": list(turn.result.codes), "sentences": list(turn.result.sentences),
        "changes": [str(change) for change in turn.changes], "nothing_changed": turn.same,
    }  # fmt: skip


def _shift(findings: Findings, shift: LevelShift) -> dict[str, Any]:
    one = shift.series
    return {
        "job": one.job, "name": one.name, "measure": one.measure, "machine": one.machine,
        "since": findings.history.nights[shift.at].id, "slower": shift.slower,
        "last": shift in findings.trends.latest, "ratio": shift.ratio, "interval": [shift.low, shift.high],
        "before": shift.before, "after": shift.after, "chance": shift.chance,
        "changes": [str(change) for change in shift.changes],
    }  # fmt: skip


def _finding(head: str, style: str, name: str, lines: Sequence[str], console: Console) -> None:
    first = Text(head, style=style).append(f" {one_line(name)}", style="bold").append(f" {one_line(lines[0])}")
    console.print(first, soft_wrap=True)
    for line in lines[1:]:
        console.print(Text(f"  {one_line(line)}"), soft_wrap=True)
    console.print()


def _since(changes: Sequence[SettingChange], *, same: bool) -> str:
    if changes:
        return f"changed since the previous night: {listed(changes)}"
    return "nothing that is recorded changed since the previous night" if same else ""


def _strip(track: Track, *, plain: bool) -> Text:
    text = Text()
    signs = strip(track, plain=plain)[-STRIP:]
    for sign, result in zip(signs, track.results[-STRIP:], strict=True):
        text.append(sign, style="dim" if result is None else STYLES[result.verdict])
    return text


def _cell(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if name == "lost" else f"{value:.1f} s"


def _can_sign(console: Console) -> bool:
    """Whether the encoding of the output has the signs."""
    try:
        "".join(SIGNS.values()).encode(console.encoding)
    except UnicodeEncodeError:
        return False
    return True
