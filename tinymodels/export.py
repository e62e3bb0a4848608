"""The model, for others: one safetensors file, whole, whatever the run was sharded into."""

import os
from pathlib import Path
from typing import Any

from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from tinymodels.durable import safetensors_errors, sync_file, sync_folder
from tinymodels.together import together
from tinymodels.world import World


def export(model: nn.Module, path: Path, world: World) -> None:
    """Gather the full weights (all ranks take part) and let rank 0 write them, all or nothing.

    `Unwritten`, on all ranks, if the disk fails.
    """
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    tensors: dict[str, Any] = get_model_state_dict(model, options=whole)
    together(world, lambda: write(tensors, path) if world.leads else None)


def write(tensors: dict[str, Any], path: Path) -> None:
    from safetensors.torch import save_file

    temporary = path.with_name(f".tmp-{path.name}")
    with safetensors_errors():
        save_file({k: v.contiguous() for k, v in tensors.items()}, temporary)
    sync_file(temporary)
    os.replace(temporary, path)
    sync_folder(path.parent)
