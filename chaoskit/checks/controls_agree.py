"""`controls_agree`: the uninterrupted runs are equal to the bit, so that equality can be asked of a broken one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check
from chaoskit.verdict import Verdict, inconclusive, passed


@dataclass(frozen=True)
class ControlsAgree:
    """See `controls_agree`."""

    name = "controls_agree"

    def __call__(self, case: Case) -> Verdict:
        if case.reference is None:
            return inconclusive(self.name, "there is no reference", "reference-failed")
        count, parting = len(case.reference.controls), case.reference.parting
        if parting is None:
            sentence = f"{count} controls agree to the bit in {case.reference.steps} steps"
            return passed(self.name, sentence, steps=case.reference.steps, controls=count)
        values = {name: list(pair) for name, pair in parting.values.items()}
        return inconclusive(
            self.name, parting.sentence, "not-deterministic", step=parting.step, rank=parting.rank, values=values
        )

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def controls_agree() -> Check:
    """The controls agree to the bit. Never fails: a job may be what it likes, it is only harder to judge then."""
    return ControlsAgree()
