"""`drain_node`: the machine of a node is drained, so that the job has to go on with a node on another machine."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanDrain
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import resolve_nodes, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_whole


@dataclass(frozen=True)
class DrainNode:
    """See `drain_node`."""

    node: int
    name = "drain_node"
    needs = (CanDrain,)
    heal_after = None
    heal_launches = None
    # The job goes on while it saves, and ends.
    holds = False
    # The environment knows the grace of a node, and how long a fresh one may take.
    observe_within = math.inf

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.node,)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanDrain, world_size: int) -> Mapping[str, Any]:
        (node,) = resolve_nodes(self.name, self.node, env.nodes())
        begun = time.monotonic()
        return {**env.drain_node(node), "node": node, "since": begun}

    def observed(self, env: CanDrain, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return env.drained(applied["node"])

    def heal(self, env: CanDrain, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node}

    def __str__(self) -> str:
        return f"drain the machine of {show_nodes(self.node)}"


@fault("drain_node", DrainNode)
def drain_node(*, node: int) -> Fault:
    """Evict `node` (a number, negative from the last) as `evict_node` does; a fresh one comes up on another machine.

    Other pods on the machine stay. Observed once the eviction is, and the fresh node runs on another machine; the
    evidence names both. Not with a job template, whose controller makes the pods. Raises UsageError if `node` is not a
    whole number.
    """
    check_whole("drain_node", "node", node)
    return Fault(DrainNode(node))
