"""`stays_finite`: no non-finite value entered the parameters or a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints import contents
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, passed


@dataclass(frozen=True)
class StaysFinite:
    """See `stays_finite`."""

    name = "stays_finite"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        assert case.reference is not None
        saved = list(contents.poisoned(case.history, case.reference))
        usual = {
            name for _, steps in case.reference.traces() for names in steps.nonfinite.values() for name in names
        }
        trained = [
            (one, place, names)
            for one in case.timeline.segments
            for place, names in sorted(one.steps.nonfinite.items())
            if one.start <= place < one.end and set(names) - usual
        ]
        codes, parts = [], []
        if saved:
            inc, lifetime, save, key = saved[0]
            base = case.timeline.base(inc.index) or 0
            codes.append("poisoned-checkpoint")
            more = f", and {len(save.nonfinite) - 1} more" if len(save.nonfinite) > 1 else ""
            parts.append(f"rank {lifetime.rank} saved a non-finite value at step {base + save.n}: {key}{more}")
        if trained:
            one, place, names = min(trained, key=lambda found: (found[0].incarnation, found[0].true(found[1])))
            codes.append("nonfinite-accepted")
            step = one.true(place) - 1
            parts.append(
                f"after step {step} the {' and the '.join(names)} of rank {one.rank} held non-finite values"
            )
        if codes:
            return failed(self.name, "; ".join(parts), *codes, saves=len(saved))
        sentence = "no parameter and no checkpoint holds a non-finite value that the reference lacks"
        return passed(self.name, sentence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


@check("nonfinite-accepted", "poisoned-checkpoint")
def stays_finite() -> Check:
    """No parameter and no optimizer state became infinite or NaN, and no checkpoint holds such a value, except where
    the uninterrupted run has it too (an attention mask, a best loss before the first evaluation). A run whose
    parameters or losses become so without any fault is no reference (`reference-nonfinite`).

    Fails with `poisoned-checkpoint`, `nonfinite-accepted`.
    """
    return StaysFinite()
