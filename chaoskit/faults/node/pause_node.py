"""`pause_node`: every process of a node is frozen for a time, as while its host is moved or starved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanLoseNodes
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import resolve_nodes, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_whole


@dataclass(frozen=True)
class PauseNode:
    """See `pause_node`."""

    node: int
    heal_after: float
    name = "pause_node"
    needs = (CanLoseNodes,)
    heal_launches = None

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.node,)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanLoseNodes, world_size: int) -> Mapping[str, Any]:
        (node,) = resolve_nodes(self.name, self.node, env.nodes())
        return {**env.freeze_node(node), "node": node}

    def observed(self, env: CanLoseNodes, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"frozen": applied["node"]} if env.is_frozen(applied["node"]) else None

    def heal(self, env: CanLoseNodes, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        env.thaw_node(applied["node"])
        return {"thawed": applied["node"], "frozen_still": env.is_frozen(applied["node"])}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node, "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"pause {show_nodes(self.node)} for {self.heal_after:g} s"


@fault("pause_node", PauseNode)
def pause_node(*, node: int, seconds: float) -> Fault:
    """Freeze every process of `node` (a number, negative from the last), its agent included, for `seconds`.

    Its network stays up: connections are kept, and nobody answers. Observed once the kernel reports that all
    processes are stopped. Raises UsageError if `node` is not a whole number, or the time is not positive.
    """
    check_whole("pause_node", "node", node)
    return Fault(PauseNode(node, check_number("pause_node", "seconds", seconds, over=0)))
