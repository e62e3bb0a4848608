"""Many nights, for people: a table for each job with a strip of verdicts, then what became of what, and since when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.report.json_report import write_text
from chaoskit.report.terminal import STYLES
from chaoskit.suites.chronicle import Change, Night, Track
from chaoskit.suites.findings import FIGURES, Findings
from chaoskit.suites.trends import ALPHA, LevelShift
from chaoskit.suites.turns import Kind, Turn

SCHEMA = 1
#: A sign for each verdict, never a colour alone; a night on which an experiment was not run has a dot.
SIGNS = {"pass": "✓", "fail": "✗", "inconclusive": "?", "skipped": "–"}
PLAIN = str.maketrans("✓✗–·", "+x-.")
ABSENT = "·"
#: So many nights are in a strip.
STRIP = 14
HEADS: dict[Kind, tuple[str, str]] = {
    "red": ("RED", STYLES["fail"]),
    "undecided": ("UNDECIDED", STYLES["inconclusive"]),
    "flaky": ("FLAKY", STYLES["inconclusive"]),
    "green": ("GREEN", STYLES["pass"]),
}


def show(findings: Findings, console: Console) -> None:
    """The tables, what turned, which times shifted, what was changed, the total."""
    for job in findings.chronicle.jobs:
        console.print(
            Text(f"job {printable(job)}" if job else "of no job that is known: it never came to a run"),
            soft_wrap=True,
        )
        console.print(table(findings, job, plain=not _can_sign(console)))
        console.print()
    for turn in findings.turns:
        head, style = HEADS[turn.kind]
        codes = f": {', '.join(turn.result.codes)}" if turn.result.codes else ""
        first, *rest = told(findings, turn)
        _finding(head, style, turn.track.name, [first + codes, *rest], console)
    for shift in findings.trends.shifts:
        head, style = ("SLOW", STYLES["fail"]) if shift.slower else ("FAST", STYLES["pass"])
        _finding(head, style, subject(shift), said(findings, shift), console)
    for line in versions(findings):
        console.print(Text(printable(line)), soft_wrap=True)
    console.print(Text(tested(findings)), soft_wrap=True)
    console.print(Text(findings.sentence, style="bold"), soft_wrap=True)


def table(findings: Findings, job: str, *, plain: bool = False) -> Table:
    """One row an experiment: its last verdicts, then each figure, the last one and what is usual."""
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    made.add_column("experiment", overflow="fold")
    nights = min(STRIP, len(findings.chronicle.nights))
    made.add_column(f"last {nights}\nnights" if nights > 1 else "night", no_wrap=True)
    for name in FIGURES:
        made.add_column(name, justify="right", no_wrap=True, vertical="bottom")
        made.add_column("usual", justify="right", no_wrap=True, vertical="bottom", style="dim")
    for track in findings.chronicle.of_job(job):
        cells = []
        for name in FIGURES:
            figure = findings.figure(track, name)
            cells += [_cell(figure.last, name), _cell(figure.usual, name)]
        made.add_row(Text(printable(track.name)), _strip(track, plain=plain), *cells)
    return made


def told(findings: Findings, turn: Turn) -> list[str]:
    """What there is to say of an experiment that turned; the first line says since when."""
    nights = findings.chronicle.nights
    if turn.kind == "flaky":
        lines = [f"{turn.bad} of {turn.of} nights that were alike did not pass, the last {at(nights[turn.since])}"]
    else:
        lines = [f"since {at(nights[turn.since])}"]
    was = "it was: " if turn.kind == "green" else ""
    lines += [was + line for sentence in turn.result.sentences for line in sentence.splitlines()[:1]]
    if turn.kind != "flaky":
        lines.append(_since(turn.changes, same=turn.same))
    last = turn.track.decided[-1][0]
    if last < len(nights) - 1:
        lines.append(f"not run since {at(nights[last])}")
    return [line for line in lines if line]


def subject(shift: LevelShift) -> str:
    """What it is a time of."""
    what = {"whole": "whole time"}.get(shift.series.measure, shift.series.measure)
    return f"{what} of {shift.series.name or 'all experiments together'}"


def said(findings: Findings, shift: LevelShift) -> list[str]:
    """Since when, by how much, and what was changed that night."""
    night = findings.chronicle.nights[shift.at]
    ratio = f"{shift.ratio:.2f} times what it was ({shift.low:.2f} to {shift.high:.2f}), relative to its nights"
    lines = [
        f"since {at(night)}: {ratio}",
        f"by the clock {shift.before:.2f} s before, {shift.after:.2f} s since",
        _since(shift.changes, same=False),
    ]
    if len({one.machine for one in findings.chronicle.nights}) > 1:
        lines.append(f"on {shift.series.machine}")
    return [line for line in lines if line]


def versions(findings: Findings) -> Iterator[str]:
    """What was changed over all the nights, job by job."""
    chronicle = findings.chronicle
    for job in chronicle.jobs:
        for night in dict.fromkeys(change.at for change in chronicle.changes(job)):
            changes = ", ".join(str(change) for change in chronicle.changes(job) if change.at == night)
            yield f"changed {at(chronicle.nights[night])}: {changes}"


def tested(findings: Findings) -> str:
    """What the times were put to, and what is too short for it."""
    trends = findings.trends
    short = sum(bool(one.name) for one in trends.short)
    few = f"; {short} with fewer than {trends.needed} nights: too few to tell" if short else ""
    if not trends.tested:
        return f"times: too few nights to tell what became slow (it takes {trends.needed})"
    return f"times: {len(trends.tested)} series tested for a step, any false alarm at {ALPHA:.0%}{few}"


def printable(text: str) -> str:
    """Without what a terminal would act on, or cannot show."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def at(night: Night) -> str:
    """A night, as one finds it again."""
    return f"{night.when} (suite {night.id})"


def strip(track: Track, *, plain: bool = False) -> str:
    """The verdicts of all nights, a sign each."""
    signs = "".join(ABSENT if result is None else SIGNS[result.verdict] for result in track.results)
    return signs.translate(PLAIN) if plain else signs


def document(findings: Findings, *, damaged: Sequence[str] = ()) -> dict[str, Any]:
    """Everything as JSON; `docs/history.md` documents schema 1."""
    chronicle = findings.chronicle
    return {
        "schema": SCHEMA,
        "sentence": findings.sentence,
        "nights": [
            {"id": n.id, "created": n.created, "status": n.status, "machine": n.machine} for n in chronicle.nights
        ],
        "experiments": [_entry(findings, track) for track in chronicle.tracks],
        "turns": [_turn(findings, turn) for turn in findings.turns],
        "shifts": [_shift(findings, shift) for shift in findings.trends.shifts],
        "changes": [
            {"job": job, "night": chronicle.nights[c.at].id, "name": c.name, "old": c.old, "new": c.new}
            for job in chronicle.jobs
            for c in chronicle.changes(job)
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


def _turn(findings: Findings, turn: Turn) -> dict[str, Any]:
    return {
        "kind": turn.kind, "name": turn.track.name, "job": turn.track.job,
        "since": findings.chronicle.nights[turn.since].id, "bad": turn.bad, "of": turn.of,
        "codes": list(turn.result.codes), "sentences": list(turn.result.sentences),
        "changes": [str(change) for change in turn.changes], "nothing_changed": turn.same,
    }  # fmt: skip


def _shift(findings: Findings, shift: LevelShift) -> dict[str, Any]:
    one = shift.series
    return {
        "job": one.job, "name": one.name, "measure": one.measure, "machine": one.machine,
        "since": findings.chronicle.nights[shift.at].id, "slower": shift.slower,
        "last": shift in findings.trends.latest, "ratio": shift.ratio, "interval": [shift.low, shift.high],
        "before": shift.before, "after": shift.after, "chance": shift.chance,
        "changes": [str(change) for change in shift.changes],
    }  # fmt: skip


def _finding(head: str, style: str, name: str, lines: Sequence[str], console: Console) -> None:
    first = Text(head, style=style).append(f" {printable(name)}", style="bold").append(f" {printable(lines[0])}")
    console.print(first, soft_wrap=True)
    for line in lines[1:]:
        console.print(Text(f"  {printable(line)}"), soft_wrap=True)
    console.print()


def _since(changes: Sequence[Change], *, same: bool) -> str:
    if changes:
        return f"changed since the night before: {', '.join(map(str, changes))}"
    return "nothing that chaoskit knows of was changed since the night before" if same else ""


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
    """Whether what reads the output knows the signs."""
    try:
        "".join(SIGNS.values()).encode(console.encoding)
    except UnicodeEncodeError:
        return False
    return True
