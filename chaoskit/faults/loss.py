"""`loss`: a share of the packets of a node never arrives, as on a bad link or a full switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanPartition
from chaoskit.faults import cuts
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.nodes import NodeSpec, as_json, check_node_spec, numbers, resolve_nodes, show_nodes


@dataclass(frozen=True)
class Loss:
    """See `loss`."""

    node: NodeSpec
    percent: float
    heal_after: float
    name = "loss"
    needs = (CanPartition,)
    heal_launches = None
    holds = False

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return numbers(self.node)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanPartition, world_size: int) -> Mapping[str, Any]:
        known = env.nodes()
        ways = cuts.around(resolve_nodes(self.name, self.node, known), known)
        return cuts.begin(env, ways, percent=self.percent)

    def observed(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return cuts.stopped(env, applied)

    def heal(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return cuts.mend(env, applied)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": as_json(self.node), "percent": self.percent, "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"lose {self.percent:g}% of the packets of {show_nodes(self.node)} for {self.heal_after:g} s"


def loss(*, node: NodeSpec, percent: float, seconds: float) -> Fault:
    """Lose `percent` of what `node` (a number, negative from the last; a tuple; 'all') sends and is sent, for
    `seconds`.

    Observed once packets of the job were lost. Raises UsageError for what is no node, for a share that is not over 0
    and up to 100, and for a time that is not positive.
    """
    check_node_spec("loss", node)
    share = check_number("loss", "percent", percent, most=100)
    return Fault(Loss(node, share, check_number("loss", "seconds", seconds)))
