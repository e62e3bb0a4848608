"""`Degrade`: the action of the faults that make links slow or noisy."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaoskit.capabilities import CanDegrade
from chaoskit.faults.node.nodes import NodeSpec, as_json, numbers, resolve_nodes


@dataclass(frozen=True)
class Degrade:
    """Give the links of `node` this `quality` (arguments of `CanDegrade.degrade`) for a time. `counted` is the
    count that proves the effect. `name` is the function that made the fault, `given` its arguments besides node and
    seconds, and `text` says what it does.
    """

    name: str
    node: NodeSpec
    heal_after: float
    given: Mapping[str, float] = field(hash=False)
    quality: Mapping[str, float] = field(hash=False)
    counted: str
    text: str
    needs = (CanDegrade,)
    heal_launches = None
    holds = False

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return numbers(self.node)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanDegrade, world_size: int) -> Mapping[str, Any]:
        nodes = resolve_nodes(self.name, self.node, env.nodes())
        return {"degraded": env.degrade(nodes, **self.quality), "nodes": list(nodes)}

    def observed(self, env: CanDegrade, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        counts = dict(env.degraded(applied["degraded"]))
        struck = counts.get("packets", 0) > 0 and counts.get(self.counted, 0) > 0
        return {"counts": counts, "since": time.monotonic()} if struck else None

    def heal(self, env: CanDegrade, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        counts = dict(env.degraded(applied["degraded"]))
        env.restore(applied["degraded"])
        return {"counts": counts}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": as_json(self.node), **self.given, "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"{self.text} for {self.heal_after:g} s"
