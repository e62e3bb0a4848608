"""`corrupt`: a share of the packets of a node has a flipped bit, as from a bad cable or network card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanDegrade
from chaoskit.faults import links
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.nodes import NodeSpec, check_node_spec, numbers, resolve_nodes, show_nodes


@dataclass(frozen=True)
class Corrupt:
    """See `corrupt`."""

    node: NodeSpec
    percent: float
    heal_after: float
    name = "corrupt"
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
        return links.begin(env, nodes, corrupt=self.percent)

    def observed(self, env: CanDegrade, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return links.degraded(env, applied, "corrupted")

    def heal(self, env: CanDegrade, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return links.restore(env, applied)

    def to_json(self) -> dict[str, Any]:
        node = list(self.node) if isinstance(self.node, tuple) else self.node
        return {"kind": self.name, "node": node, "percent": self.percent, "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"corrupt {self.percent:g}% of the packets of {show_nodes(self.node)} for {self.heal_after:g} s"


def corrupt(*, node: NodeSpec, percent: float, seconds: float) -> Fault:
    """Flip a bit in `percent` of the packets of `node` (a number, negative from the last; a tuple; 'all') on their way,
    for `seconds`.

    Observed once packets of the job were struck. Raises UsageError for what is no node, for a share that is not over 0
    and up to 100, and for a time that is not positive.
    """
    check_node_spec("corrupt", node)
    share = check_number("corrupt", "percent", percent, most=100)
    return Fault(Corrupt(node, share, check_number("corrupt", "seconds", seconds)))
