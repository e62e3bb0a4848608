"""`Limited`: what a limit of resources applies to: one rank, or one node with all that runs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import LimitTarget
from chaoskit.errors import UsageError
from chaoskit.faults.fault import resolve_ranks, show_ranks
from chaoskit.faults.node.nodes import show_nodes
from chaoskit.validation import check_whole


@dataclass(frozen=True)
class Limited:
    """One `rank` or one `node`, by number, negative from the last; the other is None."""

    rank: int | None
    node: int | None

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        """See `ActionTraits`."""
        return () if self.node is None else (self.node,)

    def victims(self, name: str, world_size: int) -> Sequence[int]:
        """See `Action`."""
        return range(world_size) if self.rank is None else resolve_ranks(name, self.rank, world_size)

    def target(self, name: str, world_size: int) -> LimitTarget:
        """The form that an environment takes. Raises UsageError for a rank that the job does not have."""
        if self.rank is None:
            return LimitTarget(node=self.node)
        return LimitTarget(rank=resolve_ranks(name, self.rank, world_size)[0])

    def to_json(self) -> dict[str, Any]:
        """The argument that was given."""
        return {"node": self.node} if self.rank is None else {"rank": self.rank}

    def __str__(self) -> str:
        return show_ranks(self.rank) if self.rank is not None else show_nodes(self.node or 0)


def check_limited(name: str, rank: int | None, node: int | None) -> Limited:
    """The rank or the node; raises UsageError unless exactly one of them is given, as a whole number."""
    if (rank is None) == (node is None):
        raise UsageError(f"{name}: give rank=... or node=... (one of the two)")
    if rank is not None:
        check_whole(name, "rank", rank)
    else:
        check_whole(name, "node", node)
    return Limited(rank, node)
