"""`one_way`: what one node sends to another is lost, and what that one sends arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanPartition
from chaoskit.errors import UsageError
from chaoskit.faults import cuts
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.nodes import check_node, resolve_nodes, show_nodes


@dataclass(frozen=True)
class OneWay:
    """See `one_way`."""

    source: int
    target: int
    heal_after: float
    name = "one_way"
    needs = (CanPartition,)
    heal_launches = None
    holds = False

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.source, self.target)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanPartition, world_size: int) -> Mapping[str, Any]:
        source, target = resolve_nodes(self.name, self.nodes_meant, env.nodes())
        return {**cuts.begin(env, [(source, target)]), "open": [cuts.show((target, source))]}

    def observed(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return cuts.closed(env, applied, still_open=applied["open"])

    def heal(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return cuts.mend(env, applied)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "source": self.source, "target": self.target, "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"lose what {show_nodes(self.source)} sends to {show_nodes(self.target)} for {self.heal_after:g} s"


def one_way(*, source: int = 0, target: int = 1, seconds: float) -> Fault:
    """Let nothing that `source` sends arrive at `target` for `seconds`; the other way stays open.

    Observed once packets of the job were stopped that way, nothing comes through, and something does the other way.
    Raises UsageError for what is no node, for one node as both, and for a time that is not positive.
    """
    check_node("one_way", source, argument="source")
    check_node("one_way", target, argument="target")
    if source == target:
        raise UsageError(f"one_way: source and target must be two nodes, and both are {source}")
    return Fault(OneWay(source, target, check_number("one_way", "seconds", seconds)))
