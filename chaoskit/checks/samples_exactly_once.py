"""`samples_exactly_once`: every sample was consumed exactly as often as in an uninterrupted run, by any rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.data_ledger import Ledger
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.completed import incomplete
from chaoskit.checks.registry import check
from chaoskit.checks.same_data import unread_data
from chaoskit.verdict import Verdict, failed, passed


@dataclass(frozen=True)
class SamplesExactlyOnce:
    """See `samples_exactly_once`."""

    name = "samples_exactly_once"

    def __call__(self, case: Case) -> Verdict:
        unknown = unmeasured(self.name, case) or unread_data(self.name, case)
        if unknown is not None:
            return unknown
        assert case.reference is not None and case.ledger is not None
        found = case.ledger
        evidence = {"ledger": found.to_json()}
        if codes := _codes(found):
            return failed(self.name, found.sentence, *codes, **evidence)
        if (gap := incomplete(self.name, case, evidence)) is not None:
            return gap
        sentence = (
            f"each {found.unit} of {case.reference.steps} steps was consumed exactly as often as in the reference"
        )
        return passed(self.name, sentence, **evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _codes(found: Ledger) -> tuple[str, ...]:
    """Return the codes, without those of a mere consequence at the end of the training."""
    if found.undetermined:
        return ("data-differs",)
    again = found.replayed - found.strange
    counts = {"data-replayed": again, "data-skipped": found.skipped}
    codes = [code for code, count in counts.items() if count and code != f"data-{found.tail}"]
    codes = codes or [code for code, count in counts.items() if count]
    return tuple(codes or (["data-reordered"] if found.strange else []))


@check("data-replayed", "data-skipped", "data-reordered", "data-differs")
def samples_exactly_once() -> Check:
    """On the effective timeline, over all ranks, every sample was consumed exactly as often as in the reference: none
    lost, none repeated. The order and the number of ranks do not matter.

    If samples could not be told apart, batches are counted, as long as the number of ranks stays the same. Fails with
    `data-replayed` and `data-skipped`; with `data-differs` if the job consumed samples that the reference never has,
    and of which rows they are made is not known; with `data-reordered` if it consumed rows that the reference never
    does.
    """
    return SamplesExactlyOnce()
