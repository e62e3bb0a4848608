"""`reset`: the connections of a node are reset (TCP RST), as by a firewall or a balancer that forgot them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanPartition
from chaoskit.faults import cuts
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.nodes import check_node, resolve_nodes, show_nodes


@dataclass(frozen=True)
class Reset:
    """See `reset`."""

    node: int
    heal_after: float
    name = "reset"
    needs = (CanPartition,)
    heal_launches = None
    holds = False

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.node,)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanPartition, world_size: int) -> Mapping[str, Any]:
        known = env.nodes()
        return cuts.begin(env, cuts.around(resolve_nodes(self.name, self.node, known), known), how="reset")

    def observed(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return cuts.stopped(env, applied)

    def heal(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return cuts.mend(env, applied)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node, "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"reset the connections of {show_nodes(self.node)}"


def reset(*, node: int = 1, seconds: float = 0.5) -> Fault:
    """Answer what belongs to a connection between `node` and another with a reset, for `seconds`; new ones may begin.

    A connection is hit when something goes over it: a job that is silent for longer needs more `seconds`. Observed once
    one was. Raises UsageError for what is no node and for a time that is not positive.
    """
    check_node("reset", node)
    return Fault(Reset(node, check_number("reset", "seconds", seconds)))
