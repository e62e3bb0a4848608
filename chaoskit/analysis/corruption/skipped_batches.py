"""`SkippedBatches`: the batches that a job skipped after it rolled back because of a bad number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.corruption.propagation import Propagation


@dataclass(frozen=True)
class SkippedBatches:
    """The steps of the reference whose batches the job skipped; none if all came again. `code` says what else is
    wrong with the data after the rollback, at `step` of `rank`; empty if nothing is."""

    steps: tuple[int, ...] = ()
    code: str = ""
    step: int = 0
    rank: int = 0


def skipped_batches(timeline: Timeline, propagation: Propagation) -> SkippedBatches | None:
    """Return the batches that the job skipped after the corruption; None if it did not roll back, or its batches
    cannot be compared."""
    base = timeline.base(propagation.recovery) if propagation.recovery is not None else None
    if base is None or timeline.reference is None or "batch" not in timeline.comparable:
        return None
    consumed: dict[int, dict[int, str]] = {}
    for one, start, end in timeline.effective:
        column = one.steps.columns.get("batch")
        for place in range(start, end):
            if column is not None and one.true(place) > base and (batch := column[place]) is not None:
                consumed.setdefault(one.rank, {})[one.true(place)] = batch
    # The last step before a new launch may have failed before it was recorded.
    unseen = not timeline.history.incarnations[propagation.recovery or 0].taken
    bad = range(max(propagation.corruption.step, base + 1), propagation.last + 1 + unseen)
    found: list[SkippedBatches] = []
    for rank, steps in timeline.reference.traces():
        if rank in consumed:
            found.append(_followed(rank, consumed[rank], steps.columns.get("batch", []), base, bad))
    if not found:
        return None
    wrong = next((one for one in found if one.code), None)
    return wrong or max(found, key=lambda one: len(one.steps))


def _followed(
    rank: int, consumed: dict[int, str], due: Sequence[str | None], base: int, bad: range
) -> SkippedBatches:
    """The batches of a rank beside those of the reference, in order, of which bad ones may be missing."""
    skipped_steps: list[int] = []
    place = base
    for step, batch in sorted(consumed.items()):
        while place < len(due) and due[place] != batch and place + 1 in bad:
            skipped_steps.append(place + 1)
            place += 1
        if place >= len(due):
            break
        if due[place] != batch:
            return SkippedBatches(tuple(skipped_steps), _code(batch, due, place), step, rank)
        place += 1
    return SkippedBatches(tuple(skipped_steps))


def _code(batch: str, due: Sequence[str | None], place: int) -> str:
    if batch in due[place:]:
        return "data-skipped"
    return "data-replayed" if batch in due[:place] else "data-reordered"
