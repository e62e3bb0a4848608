"""`add_node`: a fresh node joins the running job, as when a cluster has room again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanLoseNodes
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class AddNode:
    """See `add_node`."""

    name = "add_node"
    needs = (CanLoseNodes,)
    heal_after = None
    heal_launches = None
    holds = False

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanLoseNodes, world_size: int) -> Mapping[str, Any]:
        before = list(env.nodes())
        return {"node": env.add_node(), "before": before}

    def observed(self, env: CanLoseNodes, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        nodes = list(env.nodes())
        return {"nodes": nodes} if applied["node"] in nodes else None

    def heal(self, env: CanLoseNodes, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name}

    def __str__(self) -> str:
        return "add a node"


@fault("add_node", AddNode)
def add_node() -> Fault:
    """Bring up one more node, whose agent joins the job.

    The job must accept a range of nodes (`--nnodes=1:2`) and run on fewer than it may. Observed once the node is
    up.
    """
    return Fault(AddNode())
