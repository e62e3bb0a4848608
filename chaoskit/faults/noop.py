"""`noop`: nothing goes wrong, at a given time. What fails under it would have failed anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.fault import Fault


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


def noop() -> Fault:
    """Do nothing at the trigger; observed by being reached."""
    return Fault(Noop())
