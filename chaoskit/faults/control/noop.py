"""`noop`: nothing happens at the trigger. What fails then would have failed anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class Noop:
    """See `noop`."""

    name = "noop"
    needs = ()
    heal_after = None
    heal_launches = None

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: Any, world_size: int) -> Mapping[str, Any]:
        return {}

    def observed(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"nothing": True}

    def heal(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name}

    def __str__(self) -> str:
        return "do nothing"


@fault("noop", Noop)
def noop() -> Fault:
    """Do nothing at the trigger. Observed once the trigger is reached."""
    return Fault(Noop())
