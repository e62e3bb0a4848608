"""`evict_node`: the cluster takes a node back in an orderly manner, as when its machine is drained."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanEvict
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import resolve_nodes, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_flag, check_whole


@dataclass(frozen=True)
class EvictNode:
    """See `evict_node`."""

    node: int
    replaced: bool = True
    name = "evict_node"
    needs = (CanEvict,)
    heal_after = None
    heal_launches = None
    # The job goes on while it saves, and ends.
    holds = False
    # The environment knows the grace of a node.
    observe_within = math.inf

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.node,)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanEvict, world_size: int) -> Mapping[str, Any]:
        (node,) = resolve_nodes(self.name, self.node, env.nodes())
        begun = time.monotonic()
        return {**env.evict_node(node, replaced=self.replaced), "node": node, "since": begun}

    def observed(self, env: CanEvict, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return env.evicted(applied["node"])

    def heal(self, env: CanEvict, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node, "replaced": self.replaced}

    def __str__(self) -> str:
        return f"evict {show_nodes(self.node)}"


@fault("evict_node", EvictNode)
def evict_node(*, node: int, replaced: bool = True) -> Fault:
    """Have the cluster evict `node` (a number, negative from the last): SIGTERM, a grace, SIGKILL.

    A fresh node takes its place once it is gone; without `replaced`, the job's `NodeLossPolicy` decides. Observed once
    the job there has got SIGTERM and the cluster has the node no more; the evidence says how long the job took to end,
    or that it was killed at the end of the grace. Raises UsageError if `node` is not a whole number.
    """
    check_whole("evict_node", "node", node)
    return Fault(EvictNode(node, check_flag("evict_node", "replaced", replaced)))
