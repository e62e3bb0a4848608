"""`faults_took_effect`: every fault was seen to have happened. Without that, nothing was tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check
from chaoskit.history import FaultRecord
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
            told = "; ".join(f"'{fault.name}' {_stage(fault)}" for fault in unseen)
            return inconclusive(self.name, told, "fault-not-observed", faults=evidence)
        told = "; ".join(f"'{fault.name}' was seen to take effect" for fault in faults)
        return passed(self.name, told, faults=evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _stage(fault: FaultRecord) -> str:
    if missed := fault.evidence.get("missed"):
        return f"found nothing to strike: {missed}"
    if fault.applied is not None:
        return "was applied and never seen to take effect"
    return "was never applied: its moment did not come"


def _evidence(fault: FaultRecord) -> dict[str, Any]:
    times = {name: getattr(fault, name) for name in ("requested", "applied", "observed", "healed")}
    return {"fault": fault.index, "text": fault.name, **times, **dict(fault.evidence)}


def faults_took_effect() -> Check:
    """Every fault of the run was observed to take effect. Never fails: it is passed or inconclusive."""
    return FaultsTookEffect()
