"""`controls_agree`: the uninterrupted runs are equal to the bit, so an interrupted run can be compared to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, inconclusive, passed


@dataclass(frozen=True)
class ControlsAgree:
    """See `controls_agree`."""

    name = "controls_agree"

    def __call__(self, case: Case) -> Verdict:
        if case.reference is None:
            return inconclusive(self.name, "there is no reference", "reference-failed")
        count, divergence = len(case.reference.controls), case.reference.divergence
        if divergence is None:
            steps, known = case.reference.steps, case.reference.known_steps
            sentence = f"{count} controls agree to the bit in {steps} steps"
            if known < steps:
                sentence += f"; state was recorded at {known} of them, losses, learning rates and batches at all"
            return passed(self.name, sentence, steps=steps, controls=count)
        values = {name: list(pair) for name, pair in divergence.values.items()}
        return inconclusive(
            self.name,
            divergence.sentence,
            "not-deterministic",
            step=divergence.step,
            rank=divergence.rank,
            values=values,
        )

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


@check("not-deterministic")
def controls_agree() -> Check:
    """The controls agree to the bit. Never fails: a job need not be deterministic, but then less can be judged."""
    return ControlsAgree()
