"""`remove_node`: a node leaves in an orderly manner, as when a scheduler needs it for another job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanLoseNodes
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import resolve_nodes, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_whole


@dataclass(frozen=True)
class RemoveNode:
    """See `remove_node`."""

    node: int
    name = "remove_node"
    needs = (CanLoseNodes,)
    heal_after = None
    heal_launches = None
    holds = False
    observe_within = 60.0  # torchrun waits for its ranks, and a rank may write a checkpoint first

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.node,)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanLoseNodes, world_size: int) -> Mapping[str, Any]:
        (node,) = resolve_nodes(self.name, self.node, env.nodes())
        env.remove_node(node)
        return {"node": node}

    def observed(self, env: CanLoseNodes, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        nodes = list(env.nodes())
        # If no node is up, the job is over.
        down = bool(nodes) and applied["node"] not in nodes and not env.ranks_of(applied["node"])
        return {"nodes": nodes} if down else None

    def heal(self, env: CanLoseNodes, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node}

    def __str__(self) -> str:
        return f"remove {show_nodes(self.node)}"


@fault("remove_node", RemoveNode)
def remove_node(*, node: int = -1) -> Fault:
    """Ask the agent of `node` (a number, negative from the last) to end (SIGTERM); no node replaces it.

    Observed once the node is not up and no rank lives there. Raises UsageError if `node` is not a whole number.
    """
    check_whole("remove_node", "node", node)
    return Fault(RemoveNode(node))
