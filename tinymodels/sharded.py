"""The tensors that the ranks hold together, on their way to the disk and back: now, or while training goes on.

dcp           sharded/: every rank writes its part, and any number of ranks can read it; the usual way
pt            sharded.pt, by rank 0, which has to hold all of them (DDP)
safetensors   sharded.safetensors, likewise: tensors that other programs can read too, and the rest as JSON
"""

import json
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
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.checkpoint.staging import AsyncStager, DefaultStager, StagingOptions
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from tinymodels import delta
from tinymodels.durable import disk_errors, read_tensors, safetensors_errors, sync_file, write_tensors
from tinymodels.world import World

Tensors = dict[str, Any]


def write(tensors: Tensors, folder: Path, world: World, form: str, group: dist.ProcessGroup, delay: float) -> None:
    """All ranks: write them, in one of the formats."""
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
    """All ranks: copy them, and let a thread write the copy."""
    writer = Writer(folder / "sharded", delay)
    writing = dcp.async_save(tensors, storage_writer=writer, async_stager=stager, process_group=group)
    writing.add_done_callback(lambda _: stager.close())
    return writing


def read(tensors: Tensors, folder: Path, group: dist.ProcessGroup) -> None:
    """All ranks: fill them in, in whichever format they were written."""
    if (whole := folder / "sharded.pt").exists():
        tensors.update(read_tensors(whole))
    elif (whole := folder / "sharded.safetensors").exists():
        tensors.update(read_safetensors(whole, tensors))
    else:
        reader = dcp.FileSystemReader(folder / "sharded")
        reader.fs = Chains()
        dcp.load(tensors, storage_reader=reader, process_group=group)


class Writer(dcp.FileSystemWriter):
    """This rank's part of a sharded checkpoint; for a rehearsal, on a disk that takes its time."""

    def __init__(self, path: Path, delay: float) -> None:
        super().__init__(path)
        self.delay = delay

    def write_data(self, plan: Any, planner: Any) -> Any:
        time.sleep(self.delay)
        with disk_errors():
            return super().write_data(plan, planner)


class Chains(FileSystem):
    """Files as they are, and those of which there is but a delta as they were."""

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[IO[bytes]]:
        if Path(f"{path}{delta.SUFFIX}").exists():
            checkpoint = Path(path).parent.parent
            yield BytesIO(delta.whole(checkpoint, Path(path).relative_to(checkpoint).as_posix()))
        else:
            with super().create_stream(path, mode) as stream:
                yield stream


def write_safetensors(path: Path, tensors: Tensors) -> None:
    from safetensors.torch import save_file

    leaves = {keystr(place): leaf for place, leaf in tree_flatten_with_path(tensors)[0]}
    named = {name: leaf.contiguous() for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
    rest = {name: leaf for name, leaf in leaves.items() if name not in named}
    with safetensors_errors():
        save_file(named, path, metadata={"rest": json.dumps(rest)})
    sync_file(path)


def read_safetensors(path: Path, like: Tensors) -> Tensors:
    """What was written, in the shape of what is there now."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        saved = {name: file.get_tensor(name) for name in file.keys()} | json.loads(file.metadata()["rest"])  # noqa: SIM118
    places, shape = tree_flatten_with_path(like)
    return tree_unflatten([saved[keystr(place)] for place, _ in places], shape)


def copying_stager() -> DefaultStager:
    """Copies every tensor before `async_save` returns: training writes over the original at once."""
    return DefaultStager(
        StagingOptions(
            use_pinned_memory=False,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=False,
        )
    )
