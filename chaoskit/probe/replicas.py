"""What the ranks hold of one model: `replicas` of it under DistributedDataParallel, or `shards` of its parameters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from chaoskit.protocol.sharded_hash import is_sharded


def replicas(roots: Iterable[Any]) -> list[int]:
    """The ranks of the process group of the outermost DistributedDataParallel module; empty if there is none."""
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    if parallel is None:
        return []
    for root in roots:
        # torch.compile may have wrapped it once more.
        module = getattr(root, "_orig_mod", root)
        if isinstance(module, parallel.DistributedDataParallel):
            distributed = sys.modules["torch.distributed"]
            return sorted(distributed.get_process_group_ranks(module.process_group))
    return []


def shards(parameters: Sequence[Any]) -> int:
    """How many of these parameters are parts of larger ones, of which other ranks hold the rest."""
    return sum(map(_is_shard, parameters))


def _is_shard(parameter: Any) -> bool:
    if is_sharded(parameter):
        return True
    # FSDP1, ZeRO-3 of DeepSpeed, tensor parallelism as Megatron marks it.
    return (
        type(parameter).__name__ == "FlatParameter"
        or hasattr(parameter, "ds_tensor")
        or bool(getattr(parameter, "tensor_model_parallel", False))
    )
