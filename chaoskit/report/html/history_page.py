"""The HTML page of many nights: changes of verdicts and times, a table, and a small picture of each experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from chaoskit.engine.result import WORDS
from chaoskit.errors import CODES
from chaoskit.report.html import page
from chaoskit.report.svg.night_picture import letter, picture
from chaoskit.report.terminal.history_report import (
    at,
    listed,
    shift_lines,
    subject,
    tested,
    turn_lines,
)
from chaoskit.studies.nights.findings import FIGURES, Findings
from chaoskit.studies.nights.suite_history import SettingChange, Track
from chaoskit.studies.nights.trends import READINGS, LevelShift, Measure
from chaoskit.studies.nights.verdict_changes import Kind

#: Maximum number of nights in the table below a picture and in the grid; `--json` has all of them.
ROWS, COLUMNS = 30, 60
#: The picture of an experiment shows the first of these times that it has.
DRAWN: tuple[Measure, ...] = ("recovery", "launch", "whole")
KINDS: dict[Kind, tuple[str, str]] = {
    "red": ("fail", "became red"),
    "undecided": ("inconclusive", "can no longer be decided"),
    "flaky": ("inconclusive", "flaky"),
    "green": ("pass", "became green"),
}


def render(findings: Findings) -> str:
    """Render the page."""
    history = findings.history
    return page.render(
        "history.html.j2",
        headline=findings.sentence,
        span=f"{history.nights[0].when} to {history.nights[-1].when} UTC" if history.nights else "",
        turns=[
            {
                "turn": turn,
                "verdict": KINDS[turn.kind][0],
                "word": KINDS[turn.kind][1],
                "lines": turn_lines(findings, turn),
            }
            for turn in findings.turns
        ],
        shifts=[
            {"shift": shift, "subject": subject(shift), "lines": shift_lines(findings, shift)}
            for shift in findings.trends.shifts
        ],
        jobs=[_job(findings, place, job) for place, job in enumerate(history.jobs)],
        tested=tested(findings),
        columns=COLUMNS,
        meanings=CODES,
    )


def _job(findings: Findings, place: int, job: str) -> dict[str, Any]:
    history = findings.history
    changes = history.changes(job)
    groups: dict[int, list[SettingChange]] = {}
    for change in changes:
        groups.setdefault(change.at, []).append(change)
    legend = [
        (letter(n), at(history.nights[night]), listed(group)) for n, (night, group) in enumerate(groups.items())
    ]
    tracks = [_track(findings, track, changes, f"e{place}-{n}") for n, track in enumerate(history.of_job(job))]
    return {
        "job": job, "changes": legend, "tracks": tracks, "nights": _heads(findings),
        "together": list(_together(findings, job, place)),
    }  # fmt: skip


def _track(findings: Findings, track: Track, changes: Sequence[SettingChange], name: str) -> dict[str, Any]:
    measure = next((one for one in DRAWN if any(r and READINGS[one](r) for r in track.results)), DRAWN[0])
    values = [None if result is None else READINGS[measure](result) for result in track.results]
    verdicts = [None if result is None else result.verdict for result in track.results]
    machine = _home(findings, values)
    shifts = [s for s in _shifts(findings, track.job, track.name, measure) if s.series.machine == machine]
    figures = {name: findings.figure(track, name) for name in FIGURES}
    last = track.decided[-1][1] if track.decided else None
    return {
        "id": name, "name": track.name, "measure": measure, "last": last,
        "figures": figures, "table": _table(findings, track, name), "cells": _cells(findings, track, name),
        "description": _description(findings, verdicts, shifts, changes),
        "picture": picture(
            values, verdicts, home=[night.machine == machine for night in findings.history.nights],
            shifts=shifts, changes=changes,
        ),
    }  # fmt: skip


def _together(findings: Findings, job: str, place: int) -> Iterator[dict[str, Any]]:
    """Yield the times of all experiments together, on the machine with the most nights."""
    known = [one for one in (*findings.trends.tested, *findings.trends.short) if one.job == job and not one.alone]
    for n, measure in enumerate(DRAWN):
        mine = [one for one in known if one.measure == measure]
        if not mine:
            continue
        one = max(mine, key=lambda each: len(each.nights))
        times: list[float | None] = [None] * len(findings.history.nights)
        for night, value in zip(one.nights, one.seconds, strict=True):
            times[night] = value
        shifts = [s for s in _shifts(findings, job, "", measure) if s.series.machine == one.machine]
        changes = findings.history.changes(job)
        yield {
            "id": f"t{place}-{n}", "name": f"{measure}, all experiments together", "measure": measure,
            "description": _description(findings, [], shifts, changes),
            "picture": picture(times, [], home=[True] * len(times), shifts=shifts, changes=changes),
        }  # fmt: skip


def _home(findings: Findings, values: Sequence[float | None]) -> str:
    """Return the machine with the most values."""
    nights = findings.history.nights
    counted = Counter(night.machine for night, value in zip(nights, values, strict=True) if value is not None)
    return counted.most_common(1)[0][0] if counted else ""


def _shifts(findings: Findings, job: str, name: str, measure: Measure) -> list[LevelShift]:
    return [
        shift
        for shift in findings.trends.shifts
        if (shift.series.job, shift.series.name, shift.series.measure) == (job, name, measure)
    ]


def _table(findings: Findings, track: Track, name: str) -> list[dict[str, Any]]:
    """Return the last nights of an experiment, the newest first."""
    nights = [(night, result) for night, result in enumerate(track.results) if result is not None]
    return [
        {"id": f"{name}-n{night}", "when": findings.history.nights[night].when, "result": result}
        for night, result in reversed(nights[-ROWS:])
    ]


def _heads(findings: Findings) -> list[tuple[str, str]]:
    """The last nights, the oldest first: a short date, and the whole one."""
    return [(night.when[5:10], night.when) for night in findings.history.nights[-COLUMNS:]]


def _cells(findings: Findings, track: Track, name: str) -> list[dict[str, Any]]:
    """The last nights of an experiment in the grid, the oldest first. `row` is the id of its row in the table, if the
    table has it; `result` is None if the experiment did not run."""
    listed = {row["id"] for row in _table(findings, track, name)}
    start = max(0, len(track.results) - COLUMNS)
    return [
        {"result": result, "row": row if (row := f"{name}-n{night}") in listed else ""}
        for night, result in enumerate(track.results[start:], start)
    ]


def _description(
    findings: Findings,
    verdicts: Sequence[str | None],
    shifts: Sequence[LevelShift],
    changes: Sequence[SettingChange],
) -> str:
    """Describe the picture in words."""
    counted = [f"{verdicts.count(kind)} {word}" for kind, word in WORDS.items() if verdicts.count(kind)]
    nights = findings.history.nights
    parts = [f"{len(nights)} nights" + (f": {', '.join(counted)}" if counted else "")]
    parts += [
        f"{'slower' if shift.slower else 'faster'} since {nights[shift.at].when}, {shift.ratio:.2f} times"
        for shift in shifts
    ]
    if changes:
        parts.append(
            f"versions or flags changed on {', '.join(dict.fromkeys(nights[c.at].when for c in changes))}"
        )
    return "; ".join(parts) + "."
