"""`GateOrders`: the capabilities that an environment has once its ranks stop at a gate, whatever that is reached by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.environments.gate.server import GateServer


class GateOrders:
    """Fulfils `CanOrder` and `CanCorruptNumbers`. `gate` is None in a run whose ranks do not stop."""

    @property
    def gate(self) -> GateServer | None:
        """The gate of the run."""
        raise NotImplementedError

    def release(self, rank: int, *, keep_gating: bool, until: int = 0, names: int = 0) -> None:
        """See `Environment`."""
        if self.gate is not None:
            self.gate.release(rank, keep_gating=keep_gating, until=until, names=names)

    def order(self, rank: int, order: Mapping[str, Any]) -> None:
        """See `CanOrder`; raises LookupError if the rank is not connected."""
        self._must_gate(rank).order(rank, order)

    def raised(self, rank: int) -> bool:
        """See `CanOrder`."""
        return self.gate is not None and self.gate.raised(rank)

    def corrupt(self, rank: int, order: Mapping[str, Any]) -> int:
        """See `CanCorruptNumbers`."""
        return self._must_gate(rank).corrupt(rank, order)

    def corrupted(self, rank: int, number: int) -> Mapping[str, Any] | None:
        """See `CanCorruptNumbers`."""
        return self.gate.corrupted(rank, number) if self.gate is not None else None

    def _must_gate(self, rank: int) -> GateServer:
        if self.gate is None:
            raise LookupError(f"rank {rank} takes no orders: the run is not gated")
        return self.gate
