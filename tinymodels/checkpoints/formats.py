"""How the tensors lie on the disk: in a checkpoint, in one of three formats, and in the exported model.

dcp           sharded/: every rank writes its part, and any number of ranks can read it; the default
pt            sharded.pt, written by rank 0, which has to hold all of them (DDP only)
safetensors   sharded.safetensors, likewise: other programs can read the tensors; the rest is JSON in its metadata
"""

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.checkpoint.staging import AsyncStager, DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from tinymodels.checkpoints import delta
from tinymodels.checkpoints.durable import (
    disk_errors,
    read_tensors,
    safetensors_errors,
    sync_file,
    sync_folder,
    write_tensors,
)
from tinymodels.elasticity.collective_io import on_all_ranks
from tinymodels.elasticity.world import World

Tensors = dict[str, Any]


def write(tensors: Tensors, folder: Path, world: World, form: str, group: dist.ProcessGroup, delay: float) -> None:
    """Write the tensors in one of the formats. Call it on all ranks."""
    if form == "dcp":
        dcp.save(tensors, storage_writer=Writer(folder / "sharded", delay), process_group=group)
    elif world.leads:
        time.sleep(delay)
        if form == "pt":
            write_tensors(folder / "sharded.pt", tensors)
        else:
            write_safetensors(folder / "sharded.safetensors", tensors)


def write_async(
    tensors: Tensors, folder: Path, stager: AsyncStager, group: dist.ProcessGroup, delay: float
) -> Future[Any]:
    """Copy the tensors, and let a thread write the copy. Call it on all ranks."""
    writer = Writer(folder / "sharded", delay)
    writing = dcp.async_save(tensors, storage_writer=writer, async_stager=stager, process_group=group)
    writing.add_done_callback(lambda _: stager.close())
    return writing


def read(tensors: Tensors, folder: Path, group: dist.ProcessGroup) -> None:
    """Fill in the tensors, from whichever format is there. Call it on all ranks."""
    if (whole := folder / "sharded.pt").exists():
        tensors.update(read_tensors(whole))
    elif (whole := folder / "sharded.safetensors").exists():
        tensors.update(read_safetensors(whole, tensors))
    else:
        reader = dcp.FileSystemReader(folder / "sharded")
        reader.fs = DeltaFileSystem()
        dcp.load(tensors, storage_reader=reader, process_group=group)


class Writer(dcp.FileSystemWriter):
    """Writes this rank's part of a dcp checkpoint, after a delay that imitates a slow disk (--write-delay)."""

    def __init__(self, path: Path, delay: float) -> None:
        super().__init__(path)
        self.delay = delay

    def write_data(self, plan: Any, planner: Any) -> Any:
        time.sleep(self.delay)
        with disk_errors():
            return super().write_data(plan, planner)


class DeltaFileSystem(FileSystem):
    """Lets dcp read files as if they were full, where only a delta is there."""

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[IO[bytes]]:
        if Path(f"{path}{delta.SUFFIX}").exists():
            checkpoint = Path(path).parent.parent
            yield BytesIO(delta.reconstruct(checkpoint, Path(path).relative_to(checkpoint).as_posix()))
        else:
            with super().create_stream(path, mode) as stream:
                yield stream


def write_safetensors(path: Path, tensors: Tensors) -> None:
    from safetensors.torch import save_file

    leaves = {keystr(key): leaf for key, leaf in tree_flatten_with_path(tensors)[0]}
    named = {name: leaf.contiguous() for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
    rest = {name: leaf for name, leaf in leaves.items() if name not in named}
    with safetensors_errors():
        save_file(named, path, metadata={"rest": json.dumps(rest)})
    sync_file(path)


def read_safetensors(path: Path, like: Tensors) -> Tensors:
    """Return the saved tensors, nested like the given ones."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        names = file.keys()  # a list
        saved = {name: file.get_tensor(name) for name in names} | json.loads(file.metadata()["rest"])
    leaves, shape = tree_flatten_with_path(like)
    return tree_unflatten([saved[keystr(key)] for key, _ in leaves], shape)


def copying_stager() -> DefaultStager:
    """Return a stager that copies every tensor before `async_save` returns: the next step changes the original."""
    return DefaultStager(
        StagingOptions(
            use_pinned_memory=False,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=False,
        )
    )


def export(model: nn.Module, path: Path, world: World) -> None:
    """Gather the full weights, and let rank 0 write them as one safetensors file, whole or not at all.

    Call it on all ranks. Raises `StorageFailed` on all of them if the disk fails.
    """
    full = StateDictOptions(full_state_dict=True, cpu_offload=True)
    tensors: Tensors = get_model_state_dict(model, options=full)
    on_all_ranks(world, lambda: write_model(tensors, path) if world.leads else None)


def write_model(tensors: Tensors, path: Path) -> None:
    from safetensors.torch import save_file

    temporary = path.with_name(f".tmp-{path.name}")
    with safetensors_errors():
        save_file({k: v.contiguous() for k, v in tensors.items()}, temporary)
    sync_file(temporary)
    os.replace(temporary, path)
    sync_folder(path.parent)
