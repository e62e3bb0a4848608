"""Tells a cause from its consequence where a run both consumed data again and missed some.

A job that takes a fixed number of steps and consumes ten batches again misses ten others later, at the end of an epoch
or of the training; one that skips ten consumes ten too often later. How many steps are left decides what of that is
seen. So the beginning decides: from the first wrong step after a resume the run is behind the reference, or ahead.
"""

from __future__ import annotations

from typing import Literal

from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.consumed_data import Consumed, Units, column_of, units_of
from chaoskit.analysis.reference.reference import Reference

#: What all ranks consumed in a step, by rank.
_Step = tuple[tuple[int, Units], ...]


def consequence(
    timeline: Timeline, reference: Reference, got: Consumed, unit: str, *, balance: int
) -> Literal["", "replayed", "skipped"]:
    """Return which kind of the wrong units is but a consequence of the other; empty if each has a cause of its own.

    `got` is what was consumed where it is not what was due, `balance` how many more units were replayed than skipped:
    steps that were never taken, or taken past the end, are no consequence.
    """
    incarnations = _incarnations(timeline)
    expected = {rank: [*column_of(steps, unit)] for rank, steps in reference.traces()}
    due: dict[_Step, list[int]] = {}
    for step in range(1, reference.steps + 1):
        consumed = tuple((rank, units_of(column[step - 1], unit)) for rank, column in sorted(expected.items()))
        due.setdefault(consumed, []).append(step)
    wrong: dict[int, dict[int, Units]] = {}
    for (step, rank), units in got.items():
        wrong.setdefault(step, {})[rank] = units
    taken = {step: tuple(sorted(own.items())) for step, own in wrong.items() if own.keys() == expected.keys()}
    causes = set()
    for incarnation in {incarnations.get(step, -1) for step in wrong}:
        first = min(step for step in wrong if incarnations.get(step, -1) == incarnation)
        causes.add(_direction(first, taken, due))
    if causes == {"behind"} and balance >= 0:
        return "skipped"
    return "replayed" if causes == {"ahead"} and balance <= 0 else ""


def _incarnations(timeline: Timeline) -> dict[int, int]:
    """Which incarnation took each step that was kept."""
    return {
        step: one.incarnation
        for one, start, end in timeline.effective
        for step in range(one.true(start), one.true(start) + end - start)
    }


def _direction(first: int, taken: dict[int, _Step], due: dict[_Step, list[int]]) -> Literal["", "behind", "ahead"]:
    """Whether the run is behind the reference from that step on, by a number of steps that stays the same, or ahead.

    Where several numbers fit as long, as in epochs without shuffling, the run has gone back.
    """
    if first not in taken:
        return ""
    lengths = {first - step: _length(first, first - step, taken, due) for step in due.get(taken[first], ())}
    longest = max(lengths.values(), default=0)
    shifts = [shift for shift, length in lengths.items() if length == longest]
    if not shifts:
        return ""
    return "behind" if max(shifts) > 0 else "ahead"


def _length(first: int, shift: int, taken: dict[int, _Step], due: dict[_Step, list[int]]) -> int:
    """For how many steps the run consumes what the reference consumes so many steps before."""
    step = first
    while step in taken and step - shift in due.get(taken[step], ()):
        step += 1
    return step - first
