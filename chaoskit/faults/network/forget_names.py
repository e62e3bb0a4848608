"""`forget_names`: a node cannot resolve the names of the others, as when its name server is down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanHideNames
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import NodeSpec, as_json, numbers, resolve_nodes, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_numbered


@dataclass(frozen=True)
class ForgetNames:
    """See `forget_names`."""

    node: NodeSpec
    heal_after: float
    name = "forget_names"
    needs = (CanHideNames,)
    heal_launches = None
    holds = False

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return numbers(self.node)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanHideNames, world_size: int) -> Mapping[str, Any]:
        known = env.nodes()
        nodes = resolve_nodes(self.name, self.node, known)
        env.hide_names(nodes)
        return {"nodes": list(nodes), "names": list(known)}

    def observed(self, env: CanHideNames, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        resolved = _resolved(env, applied)
        known = any(any(names.values()) for names in resolved.values())
        return {"resolves": resolved} if resolved and not known else None

    def heal(self, env: CanHideNames, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        env.show_names(applied["nodes"])
        return {"resolves_again": _resolved(env, applied)}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": as_json(self.node), "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"forget all names on {show_nodes(self.node)} for {self.heal_after:g} s"


def _resolved(env: CanHideNames, applied: Mapping[str, Any]) -> dict[str, dict[str, bool]]:
    """By node that is up, which names of other nodes it resolves; {} if no such node is up."""
    up = [node for node in applied["nodes"] if node in env.nodes()]
    others = {node: [name for name in applied["names"] if name != node] for node in up}
    return {node: {name: env.resolves(node, name) for name in names} for node, names in others.items()}


@fault("forget_names", ForgetNames)
def forget_names(*, node: NodeSpec, seconds: float) -> Fault:
    """Make `node` resolve no name of another node for `seconds`.

    `node`: a number, negative from the last; a tuple; 'all'. Existing connections stay. Observed once the node
    resolves none of the names. Raises UsageError for a node of another form, and for a time that is not positive.
    """
    check_numbered("forget_names", "node", node, distinct=True)
    return Fault(ForgetNames(node, check_number("forget_names", "seconds", seconds, over=0)))
