"""`delay`: what a node sends and is sent takes longer, as over a long or a crowded way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanDegrade
from chaoskit.errors import UsageError
from chaoskit.faults import links
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.nodes import NodeSpec, check_node_spec, numbers, resolve_nodes, show_nodes


@dataclass(frozen=True)
class Delay:
    """See `delay`."""

    node: NodeSpec
    ms: float
    jitter: float
    heal_after: float
    name = "delay"
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
        return links.begin(env, nodes, delay=self.ms / 1000, jitter=self.jitter / 1000)

    def observed(self, env: CanDegrade, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return links.degraded(env, applied, "held")

    def heal(self, env: CanDegrade, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return links.restore(env, applied)

    def to_json(self) -> dict[str, Any]:
        node = list(self.node) if isinstance(self.node, tuple) else self.node
        return {"kind": self.name, "node": node, "ms": self.ms, "jitter": self.jitter, "seconds": self.heal_after}

    def __str__(self) -> str:
        jitter = f" (give or take {self.jitter:g} ms)" if self.jitter else ""
        return f"delay packets of {show_nodes(self.node)} by {self.ms:g} ms{jitter} for {self.heal_after:g} s"


def delay(*, node: NodeSpec, ms: float, jitter: float = 0.0, seconds: float) -> Fault:
    """Hold back every packet of `node` (a number, negative from the last; a tuple; 'all') by `ms` milliseconds, give or
    take `jitter`, for `seconds`.

    Observed once packets of the job were held back. Raises UsageError for what is no node, for a delay or a time that
    is not positive, and for a jitter that is larger than the delay.
    """
    check_node_spec("delay", node)
    late = check_number("delay", "ms", ms)
    if check_number("delay", "jitter", jitter, zero=True) > late:
        raise UsageError(f"delay: jitter must be at most ms, which is {ms!r}, not {jitter!r}")
    return Fault(Delay(node, late, float(jitter), check_number("delay", "seconds", seconds)))
