"""`not_spread`: a corruption on one rank does not reach other ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.corruption.propagation import Propagation
from chaoskit.analysis.finding import show_ranks
from chaoskit.checks.check import Check
from chaoskit.checks.explanation import components, explain
from chaoskit.checks.registry import check
from chaoskit.checks.struck import faded, judge_each
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class NotSpread:
    """See `not_spread`."""

    name = "not_spread"

    def __call__(self, case: Case) -> Verdict:
        return judge_each(self.name, case, lambda propagation: self._judged(case, propagation))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _judged(self, case: Case, propagation: Propagation) -> Verdict:
        struck = propagation.corruption
        inc = case.history.incarnations[struck.incarnation]
        if not set(inc.ranks) - set(struck.ranks):
            sentence = f"{struck}: there is no other rank to which it could spread"
            return inconclusive(self.name, sentence, "fault-not-observed")
        if (nothing := faded(self.name, case, propagation)) is not None:
            return nothing
        if propagation.diverged_before:
            sentence = f"{struck}; the run had already diverged from the reference, so the spread is unknown"
            return inconclusive(self.name, sentence, "probe-blind")
        if not case.timeline.comparable & {"model"}:
            sentence = "the uninterrupted runs themselves differ in the model, so the spread is unknown"
            return inconclusive(self.name, sentence, "not-deterministic")
        for step, ranks in sorted(propagation.until_noticed().items()):
            others = sorted(set(ranks) - set(struck.ranks))
            if others:
                names = {name for rank in others for name in ranks[rank]}
                sentence = f"by step {step} it had spread to {show_ranks(others)}, in {components(names)}"
                return failed(self.name, f"{sentence}: {explain(case, propagation)}", "corruption-spread")
        until = propagation.detection.step if propagation.detection is not None else propagation.last
        sentence = f"{struck}; up to step {until} no other rank differs from the reference"
        return passed(self.name, sentence)


@check("corruption-spread")
def not_spread() -> Check:
    """From the corrupted step until the detection, no rank but the corrupted one differs from the reference. The
    evidence has a row for each step: which ranks differ, and in what.

    A wrong gradient that is reduced with those of other ranks always spreads: this check is for jobs that inspect
    gradients before they reduce them, and for corruption after that. Fails with `corruption-spread`.
    """
    return NotSpread()
