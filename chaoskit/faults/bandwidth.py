"""`bandwidth`: the link of a node lets only so much through, as one that others fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanDegrade
from chaoskit.faults import links
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.nodes import NodeSpec, check_node_spec, numbers, resolve_nodes, show_nodes


@dataclass(frozen=True)
class Bandwidth:
    """See `bandwidth`."""

    node: NodeSpec
    kbit: float
    heal_after: float
    name = "bandwidth"
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
        return links.begin(env, nodes, rate=self.kbit * 1000 / 8)

    def observed(self, env: CanDegrade, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return links.degraded(env, applied, "held")

    def heal(self, env: CanDegrade, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return links.restore(env, applied)

    def to_json(self) -> dict[str, Any]:
        node = list(self.node) if isinstance(self.node, tuple) else self.node
        return {"kind": self.name, "node": node, "kbit": self.kbit, "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"limit {show_nodes(self.node)} to {self.kbit:g} kbit/s for {self.heal_after:g} s"


def bandwidth(*, node: NodeSpec, kbit: float, seconds: float) -> Fault:
    """Let `node` (a number, negative from the last; a tuple; 'all') send and be sent no more than `kbit` kilobits a
    second, for `seconds`.

    Observed once packets of the job had to wait. Raises UsageError for what is no node, and for a rate or a time that
    is not positive.
    """
    check_node_spec("bandwidth", node)
    rate = check_number("bandwidth", "kbit", kbit)
    return Fault(Bandwidth(node, rate, check_number("bandwidth", "seconds", seconds)))
