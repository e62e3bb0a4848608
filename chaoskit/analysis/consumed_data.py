"""What a run consumed and what was due, in samples, rows or batches, where the two differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.record.column import values_apart
from chaoskit.analysis.record.steps import Steps
from chaoskit.analysis.reference.reference import Reference

#: What one rank consumed in one step.
Units = tuple[str, ...]

Unit = Literal["sample", "batch", "row"]

Consumed = dict[tuple[int, int], Units]


def differences(timeline: Timeline, reference: Reference, unit: str) -> tuple[Consumed, Consumed]:
    """What was consumed and what was due, by (true step, rank), where the two differ."""
    got: Consumed = {}
    due: Consumed = {}
    wanted = {rank: column_of(steps, unit) for rank, steps in reference.traces()}
    for one, start, end in timeline.effective:
        if one.rank not in wanted:
            continue
        own, want, at = column_of(one.steps, unit), wanted[one.rank], one.true(start) - 1
        stop = max(start, min(end, start + len(want) - at))
        for place, value, other in values_apart(own[start:stop], want[at : at + stop - start]):
            got[at + place + 1, one.rank] = units_of(value, unit)
            due[at + place + 1, one.rank] = units_of(other, unit)
        got.update({(one.true(place), one.rank): units_of(own[place], unit) for place in range(stop, end)})
    for rank, want in wanted.items():
        # What a job that was cut off did not come to was not skipped.
        last = len(want) if timeline.history.end == "finished" else timeline.highest(rank)
        for step in timeline.missing(rank, min(last, len(want))):
            due[step, rank] = units_of(want[step - 1], unit)
    return got, due


def differences_between_sizes(timeline: Timeline, reference: Reference, unit: str) -> tuple[Consumed, Consumed]:
    """The same of a run whose number of ranks changed: who consumed a sample does not matter in the steps after that,
    nor in which order a step consumed its own."""
    taken: dict[int, dict[int, Units]] = {}
    together: set[int] = set()
    for one, start, end in timeline.effective:
        for place in range(start, end):
            units = units_of(column_of(one.steps, unit)[place], unit)
            taken.setdefault(one.true(place), {})[one.rank] = units
        if one.incarnation in timeline.resized:
            together.update(range(one.true(start), one.true(end)))
    wanted = {rank: column_of(steps, unit) for rank, steps in reference.traces()}
    last = reference.steps if timeline.history.end == "finished" else timeline.highest()
    got: Consumed = {}
    due: Consumed = {}
    for step in range(1, max([last, *taken]) + 1):
        own = taken.get(step, {})
        want = {rank: units_of(column[step - 1], unit) for rank, column in wanted.items() if step <= len(column)}
        if step in together and sorted(u for one in own.values() for u in one) == sorted(
            u for one in want.values() for u in one
        ):
            continue
        apart = [rank for rank in {*own, *want} if step in together or own.get(rank) != want.get(rank)]
        got.update({(step, rank): own[rank] for rank in apart if rank in own})
        due.update({(step, rank): want[rank] for rank in apart if rank in want})
    return got, due


def column_of(steps: Steps, unit: str) -> Sequence[str | None]:
    if unit != "batch":
        return steps.samples if unit == "sample" else steps.rows
    return steps.columns.get("batch") or [None] * len(steps)


def units_of(value: str | None, unit: str) -> Units:
    if unit == "batch":
        return (value,) if value else ()
    return tuple(one for one in (value or "").split() if one != "-")
