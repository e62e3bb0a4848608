"""`faults_took_effect`: every fault was observed to take effect. Otherwise nothing was tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, inconclusive, passed


@dataclass(frozen=True)
class FaultsTookEffect:
    """See `faults_took_effect`."""

    name = "faults_took_effect"

    def __call__(self, case: Case) -> Verdict:
        faults = case.history.faults
        if not faults:
            return inconclusive(self.name, "no fault was part of this run", "fault-not-observed")
        evidence = [_evidence(fault) for fault in faults]
        unseen = [fault for fault in faults if fault.observed is None]
        if unseen:
            sentence = "; ".join(f"'{fault.name}' {_stage(fault)}" for fault in unseen)
            return inconclusive(self.name, sentence, "fault-not-observed", faults=evidence)
        sentence = "; ".join(f"'{fault.name}' was observed to take effect" for fault in faults)
        return passed(self.name, sentence, faults=evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _stage(fault: FaultRecord) -> str:
    if missed := fault.evidence.get("missed"):
        return f"found no target: {missed}"
    if fault.applied is not None:
        return "was applied but not observed to take effect"
    return "was never applied: its trigger did not fire"


def _evidence(fault: FaultRecord) -> dict[str, Any]:
    times = {name: getattr(fault, name) for name in ("requested", "applied", "observed", "healed")}
    return {"fault": fault.index, "text": fault.name, **times, **dict(fault.evidence)}


@check("fault-not-observed")
def faults_took_effect() -> Check:
    """Every fault of the run was observed to take effect. Never fails: the verdict is pass or inconclusive."""
    return FaultsTookEffect()
