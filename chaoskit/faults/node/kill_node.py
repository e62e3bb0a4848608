"""`kill_node`: a node is gone, agent and ranks at once, without a word to anybody, as after a loss of power."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanLoseNodes
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import resolve_nodes, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_whole


@dataclass(frozen=True)
class KillNode:
    """See `kill_node`, and `replace_node` if it is `replaced`."""

    node: int
    replaced: bool = False
    needs = (CanLoseNodes,)
    heal_after = None
    heal_launches = None

    @property
    def name(self) -> str:
        return "replace_node" if self.replaced else "kill_node"

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.node,)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanLoseNodes, world_size: int) -> Mapping[str, Any]:
        (node,) = resolve_nodes(self.name, self.node, env.nodes())
        begun = time.monotonic()
        lost = env.lose_node(node, replaced=True) if self.replaced else env.lose_node(node)
        return {**lost, "node": node, "since": begun}

    def observed(self, env: CanLoseNodes, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"gone": applied["node"]} if env.is_lost(applied["node"]) else None

    def heal(self, env: CanLoseNodes, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node}

    def __str__(self) -> str:
        return f"{'replace' if self.replaced else 'kill'} {show_nodes(self.node)}"


@fault("kill_node", KillNode)
def kill_node(*, node: int) -> Fault:
    """Lose `node` (a number, negative from the last): cut it off, and end every process on it.

    The job's `NodeLossPolicy` decides whether the node comes back, and when. Observed once no process runs there
    and nobody reaches it. Raises UsageError if `node` is not a whole number.
    """
    check_whole("kill_node", "node", node)
    return Fault(KillNode(node))
