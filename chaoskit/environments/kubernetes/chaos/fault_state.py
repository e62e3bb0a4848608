"""`FaultState`: what Chaos Mesh says of one fault, read from its object. It is a claim, not yet a proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FINALIZER = "chaos-mesh/records"
_INJECTED, _NOT_INJECTED = "Injected", "Not Injected"


@dataclass(frozen=True)
class ChaosRecord:
    """One pod or container that was chosen: `target` is `namespace/pod` or `namespace/pod/container`, `side` is "." for
    the pods of the fault and ".Target" for those at the other end of a link. `complaints` are the failures, the newest
    last."""

    target: str
    side: str
    phase: str
    injected: int
    recovered: int
    complaints: tuple[str, ...] = ()

    @property
    def pod(self) -> str:
        """The name of the pod."""
        return [*self.target.split("/"), ""][1]


@dataclass(frozen=True)
class FaultState:
    """`conditions` by their types. `is_taken_up` says whether a controller has seen the object at all; `desired` is
    "Run" or "Stop", or "" before."""

    is_taken_up: bool
    desired: str
    conditions: Mapping[str, bool]
    records: tuple[ChaosRecord, ...]

    @property
    def has_targets(self) -> bool:
        """Whether pods were chosen; they are chosen once."""
        return bool(self.records)

    @property
    def is_injected(self) -> bool:
        """Whether every pod has it now, as its record says, and the whole, too."""
        return self.conditions.get("AllInjected", False) and all(one.phase == _INJECTED for one in self.records)

    @property
    def was_injected(self) -> bool:
        """Whether every pod has it or has had it."""
        return self.has_targets and all(one.injected > 0 for one in self.records)

    @property
    def is_over(self) -> bool:
        """Whether every pod has had it, and it is to be taken back by now."""
        return self.was_injected and self.desired == "Stop"

    @property
    def is_recovered(self) -> bool:
        """Whether it was injected and is taken back everywhere. `AllRecovered` alone says nothing: it is true before
        the injection as well."""
        stopped = self.desired == "Stop" and self.conditions.get("AllRecovered", False)
        begun = any(one.injected > 0 for one in self.records)
        return stopped and begun and all(one.phase == _NOT_INJECTED for one in self.records)

    @property
    def complaints(self) -> tuple[str, ...]:
        """Why pods do not have it, or still have it: the last failure of each."""
        return tuple(f"{one.pod}: {one.complaints[-1]}" for one in self.records if one.complaints)

    def evidence(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "desired": self.desired,
            "conditions": dict(self.conditions),
            "records": [{**vars(one), "complaints": list(one.complaints)} for one in self.records],
        }


def read(manifest: Mapping[str, Any]) -> FaultState:
    """The state of a fault as the server has its object. What is not there is not claimed."""
    metadata, status = manifest.get("metadata") or {}, manifest.get("status") or {}
    experiment = status.get("experiment") or {}
    return FaultState(
        is_taken_up=bool(status) or FINALIZER in (metadata.get("finalizers") or ()),
        desired=str(experiment.get("desiredPhase") or ""),
        conditions={str(one["type"]): one.get("status") == "True" for one in status.get("conditions") or ()},
        records=tuple(_record(one) for one in experiment.get("containerRecords") or ()),
    )


def _record(record: Mapping[str, Any]) -> ChaosRecord:
    failed = [one for one in record.get("events") or () if one.get("type") == "Failed"]
    return ChaosRecord(
        target=str(record.get("id") or ""),
        side=str(record.get("selectorKey") or ""),
        phase=str(record.get("phase") or ""),
        injected=int(record.get("injectedCount") or 0),
        recovered=int(record.get("recoveredCount") or 0),
        complaints=tuple(" ".join(str(one.get("message") or one.get("operation")).split()) for one in failed),
    )
