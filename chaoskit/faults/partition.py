"""`partition` and `isolate`: the network falls into parts that do not hear each other, for a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanPartition
from chaoskit.errors import UsageError
from chaoskit.faults import cuts
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.nodes import check_node, check_node_spec, resolve_nodes, show_nodes


@dataclass(frozen=True)
class Partition:
    """See `partition`."""

    groups: tuple[tuple[int, ...], ...]
    heal_after: float
    name = "partition"
    needs = (CanPartition,)
    heal_launches = None
    holds = False

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return tuple(node for group in self.groups for node in group)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanPartition, world_size: int) -> Mapping[str, Any]:
        known = env.nodes()
        return cuts.begin(env, cuts.between([resolve_nodes(self.name, group, known) for group in self.groups]))

    def observed(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return cuts.closed(env, applied)

    def heal(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return cuts.mend(env, applied)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "groups": [list(group) for group in self.groups], "seconds": self.heal_after}

    def __str__(self) -> str:
        *others, last = [show_nodes(group) for group in self.groups]
        parts = (
            f"{others[0]} from {last}" if len(others) == 1 else f"{', '.join(others)} and {last} from each other"
        )
        return f"partition {parts} for {self.heal_after:g} s"


@dataclass(frozen=True)
class Isolate:
    """See `isolate`."""

    node: int
    heal_after: float
    name = "isolate"
    needs = (CanPartition,)
    heal_launches = None
    holds = False

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.node,)

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanPartition, world_size: int) -> Mapping[str, Any]:
        known = env.nodes()
        return cuts.begin(env, cuts.around(resolve_nodes(self.name, self.node, known), known))

    def observed(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return cuts.closed(env, applied)

    def heal(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return cuts.mend(env, applied)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node, "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"isolate {show_nodes(self.node)} for {self.heal_after:g} s"


def partition(*, groups: Sequence[Sequence[int]] = ((0,), (1,)), seconds: float) -> Fault:
    """Let no packet through between nodes of different `groups` for `seconds`; a node in none of them hears everybody.

    Observed once packets of the job were stopped and nothing comes through any more. Raises UsageError for fewer than
    two groups, for an empty one, for a node in two of them, and for a time that is not positive.
    """
    if not isinstance(groups, (tuple, list)) or not all(isinstance(group, (tuple, list)) for group in groups):
        raise UsageError(f"partition: groups must be a tuple of groups of nodes, ((0,), (1,)), not {groups!r}")
    parts = tuple(tuple(group) for group in groups)
    if len(parts) < 2 or not all(parts):
        raise UsageError(f"partition: groups must be two or more, each with a node in it, not {groups!r}")
    for group in parts:
        check_node_spec("partition: groups", group)
    named = [node for group in parts for node in group]
    twice = next((node for node in named if named.count(node) > 1), None)
    if twice is not None:
        raise UsageError(f"partition: groups must not overlap, and node {twice} is in two; name each node once")
    return Fault(Partition(parts, check_number("partition", "seconds", seconds)))


def isolate(*, node: int = 1, seconds: float) -> Fault:
    """Let no packet through between `node` (a number, negative from the last) and all others for `seconds`.

    Observed as `partition` is. Raises UsageError for what is no node and for a time that is not positive.
    """
    check_node("isolate", node)
    return Fault(Isolate(node, check_number("isolate", "seconds", seconds)))
