"""`rows_tell`: whether the rows of the data set, and not what was made of them, tell what a run consumed."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.consumed_data import column_of
from chaoskit.analysis.record.steps import Steps
from chaoskit.analysis.reference.reference import Reference


def rows_tell(timeline: Timeline, reference: Reference) -> bool:
    """Whether all rows are known, and each sample may have been made of its row by random numbers."""
    seen = [steps for _, steps in reference.traces()] + [one.steps for one in timeline.segments]
    known = _known(seen, reference) and _known_alike(timeline, reference)
    return known and all(_drawn_anew(one.steps, reference) for one in timeline.segments)


def _known(seen: Sequence[Steps], reference: Reference) -> bool:
    """Of all that was consumed. A step that has no samples, and the batch of others that have none, consumed no data,
    as that of a generator, which is given noise."""
    ran = [steps for _, steps in reference.traces()]
    none = {
        batch
        for steps in ran
        for samples, batch in zip(steps.samples, column_of(steps, "batch"), strict=True)
        if not samples
    }
    return any(any(steps.rows) for steps in ran) and all(
        row or (not samples and batch in none)
        for steps in seen
        for row, samples, batch in zip(steps.rows, steps.samples, column_of(steps, "batch"), strict=True)
    )


def _known_alike(timeline: Timeline, reference: Reference) -> bool:
    """Whether the rows are known of the same samples of each step as in the reference: others are noise."""
    wanted = {rank: steps.rows for rank, steps in reference.traces()}
    for one in timeline.segments:
        if timeline.resized or not any("-" in rows for rows in (*one.steps.rows, *wanted.get(one.rank, ()))):
            continue
        due = wanted.get(one.rank, [])[one.first - 1 :]
        pairs = zip(one.steps.rows[one.start : one.end], due, strict=False)
        if any(_unknown(own) != _unknown(want) for own, want in pairs):
            return False
    return True


def _unknown(rows: str) -> list[int]:
    return [place for place, row in enumerate(rows.split()) if row == "-"]


def _drawn_anew(steps: Steps, reference: Reference) -> bool:
    """Whether each sample may have been made of the row that was asked for, by whatever random numbers."""
    return all(
        reference.may_be(sample, row)
        for samples, rows in zip(steps.samples, steps.rows, strict=True)
        for sample, row in zip(samples.split(), rows.split(), strict=False)
    )
