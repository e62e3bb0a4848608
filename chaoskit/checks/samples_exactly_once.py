"""`samples_exactly_once`: every sample was consumed exactly as often as in an uninterrupted run, by whichever rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check, unmeasured
from chaoskit.checks.completed import incomplete
from chaoskit.checks.same_data import unread_data
from chaoskit.ledger import Ledger
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
            f"each {found.unit} of {case.reference.steps} steps was consumed exactly as often as it should be"
        )
        return passed(self.name, sentence, **evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _codes(found: Ledger) -> tuple[str, ...]:
    """What is but a consequence at the end of the training gives no code where its cause does."""
    again = found.replayed - found.strange
    counts = {"data-replayed": again, "data-skipped": found.skipped}
    codes = [code for code, count in counts.items() if count and code != f"data-{found.tail}"]
    codes = codes or [code for code, count in counts.items() if count]
    return tuple(codes or (["data-reordered"] if found.strange else []))


def samples_exactly_once() -> Check:
    """On the effective timeline, over all ranks however many they were, every sample was consumed exactly as often as
    in the reference: none is lost, none repeated. The order does not matter.

    Where samples could not be told apart, batches are counted, as long as the number of ranks stays the same. Fails
    with `data-replayed`, `data-skipped`, and `data-reordered` where samples were consumed that the reference never has.
    """
    return SamplesExactlyOnce()
