"""Tensors dealt out over ranks that need not exist: DTensors as one process of each rank would hold them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from chaoskit.protocol.sharded_hash import Shards, whole_of


class Mesh:
    """As much of a device mesh as says where a rank stands: `replicas` times `ranks` of them, flat where there is one
    of each."""

    def __init__(self, ranks: int, rank: int, replicas: int = 1) -> None:
        self.shape = (replicas, ranks) if replicas > 1 else (ranks,)
        self.at = (rank // ranks, rank % ranks) if replicas > 1 else (rank,)

    def get_coordinate(self) -> tuple[int, ...]:
        return self.at

    def _sym_get_coordinate(self, dim: int) -> int:
        return self.at[dim]

    def _is_current_rank_part_of_mesh(self) -> bool:
        return True


def shard(whole: Any, mesh: Mesh, dim: int = 0) -> Any:
    """What a rank of `mesh` holds of a tensor that is sharded along `dim`, as FSDP2 does it."""
    import torch
    from torch.distributed.tensor import Replicate, Shard

    ranks = mesh.shape[-1]
    chunks = list(torch.chunk(whole, ranks, dim))
    own = chunks[mesh.at[-1]] if mesh.at[-1] < len(chunks) else whole.narrow(dim, 0, 0)

    class Sharded(torch.Tensor):
        _local_tensor = own
        placements = ((Replicate(),) if len(mesh.shape) > 1 else ()) + (Shard(dim),)
        device_mesh = mesh

    return torch.Tensor._make_subclass(Sharded, whole)


def on_ranks(value: Any, ranks: int, *, plain: Collection[str] = (), dim: int = 0, replicas: int = 1) -> list[str]:
    """The part that each rank records of a component whose tensors, but those named `plain`, are sharded."""
    parts = []
    for rank in range(ranks * replicas):
        mesh = Mesh(ranks, rank, replicas)
        if isinstance(value, dict):
            own: Any = {
                key: shard(each, mesh, dim) if hasattr(each, "dim") and key not in plain else each
                for key, each in value.items()
            }
        else:
            own = [shard(each, mesh, dim) for each in value]
        part = Shards()
        part.value(own)
        parts.append(part.settled([]))
    return parts


def dealt(value: Any, ranks: int, **options: Any) -> str:
    """The whole of a component that so many ranks hold together."""
    return whole_of(on_ranks(value, ranks, **options))
