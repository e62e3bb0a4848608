"""`same_data`: every sample was consumed as often, and in the same order, as in an uninterrupted run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.completed import blind_spots, completed, missing_steps
from chaoskit.checks.registry import check
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class SameData:
    """See `same_data`."""

    name = "same_data"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        if (unread := unread_data(self.name, case)) is not None:
            return unread
        assert case.reference is not None and case.ledger is not None
        found, missing = case.ledger, missing_steps(case)
        evidence = {"ledger": found.to_json()}
        if found.codes:
            return failed(self.name, found.sentence, *found.codes, **evidence)
        if missing and (end := completed()(case)).outcome is not Outcome.PASS:
            sentence = f"the data of step {missing[0][1]} was never consumed: {end.sentence}"
            return Verdict(self.name, end.outcome, sentence, end.codes, evidence)
        steps = case.reference.steps
        sentence = (
            f"every {found.unit} of {steps} steps was consumed as often as in the reference, and in the same order"
        )
        if found.replayed:
            sentence += f"; then the training went on: {found.sentence}"
        return passed(self.name, sentence, **evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def unread_data(name: str, case: Case) -> Verdict | None:
    """Return the verdict of the check `name` if the data that the run consumed, or should consume, is unknown."""
    found = case.ledger
    if found is None and case.timeline.resized:
        why = "samples could not be told apart, and between different numbers of ranks whole batches cannot be compared"
        return inconclusive(name, why, "probe-blind")
    if found is None:
        return inconclusive(name, "no batch of the uninterrupted run was recorded", "probe-blind")
    if "batch" not in case.timeline.comparable:
        sentence = "the uninterrupted runs themselves consume different data, so nothing can be compared"
        return inconclusive(name, sentence, "not-deterministic")
    blind = [one for one, start, end in case.timeline.effective if _unseen(one.steps.columns, start, end)]
    if blind:
        where = f"rank {blind[0].rank}, incarnation {blind[0].incarnation}"
        return inconclusive(name, f"batches were not recorded ({where})", "probe-blind")
    missing = missing_steps(case)
    if missing and (spots := blind_spots(case)):
        # What was not seen may have been consumed.
        rank, step = missing[0]
        sentence = f"the data that rank {rank} consumed in step {step} is unknown: {spots[0]}"
        return inconclusive(name, sentence, "probe-blind", ledger=found.to_json())
    return None


def _unseen(columns: Mapping[str, Sequence[str | None]], start: int, end: int) -> bool:
    batches = columns.get("batch")
    return batches is None or None in batches[start:end]


@check("data")
def same_data() -> Check:
    """On the effective timeline, over all ranks, every sample was consumed exactly as often as in the reference, and
    in the same order: none repeated, none skipped, across epochs too.

    If samples could not be told apart, batches are compared. With another number of ranks it does not matter which
    rank consumes a sample, nor the order within a step. Fails with `data-replayed`, `data-skipped`, `data-reordered`,
    `data-differs`, with counts and the first step of each.
    """
    return SameData()
