"""`nan`: one forward pass of a rank gives not-a-number, as a bad batch or a bad device would have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanOrder
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, check_ranks, resolve_ranks, show_ranks


@dataclass(frozen=True)
class Nan:
    """See `nan`."""

    rank: int
    name = "nan"
    needs = (CanOrder,)
    heal_after = None
    heal_launches = None

    def victims(self, world_size: int) -> Sequence[int]:
        return resolve_ranks(self.name, self.rank, world_size)

    def apply(self, env: CanOrder, world_size: int) -> Mapping[str, Any]:
        (rank,) = self.victims(world_size)
        env.order(rank, {"do": "nan"})
        return {"rank": rank}

    def observed(self, env: CanOrder, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"raised": "NaN"} if env.raised(applied["rank"]) else None

    def heal(self, env: CanOrder, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "rank": self.rank}

    def __str__(self) -> str:
        return f"NaN in the next forward pass of {show_ranks(self.rank)}"


def nan(*, rank: int) -> Fault:
    """Make the output of one training forward pass of `rank` NaN: the first one after its trigger.

    Observed once that pass has been made. Raises UsageError for a rank that does not exist.
    """
    check_ranks("nan", rank)
    if not isinstance(rank, int):
        raise UsageError(f"nan: one rank at a time, not {rank!r}")
    return Fault(Nan(rank))
