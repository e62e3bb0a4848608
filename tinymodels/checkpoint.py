"""Checkpoints that can be trusted: whole or not there at all, and checked before they are read.

DIR/checkpoints/
    .tmp-step-00000030/      being written; a crash leaves it behind, nobody ever reads it
    step-00000020/           published by one rename, never touched again
        sharded/             torch.distributed.checkpoint: every rank writes its part
        shared.pt            what is equal on all ranks
        rank-00000.pt ...    what is not
        manifest.json        step, world size; size and checksum of every file above
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.utils._pytree import tree_map

from tinymodels.state import State
from tinymodels.world import World

FORMAT = 1
Manifest = dict[str, Any]


class Refused(Exception):
    """A run that cannot go on; its message is one line for whoever started it."""


class Invalid(Exception):
    """A checkpoint that is not what was saved; its message is the reason."""


class Checkpoints:
    """The checkpoints of one run, oldest to newest. Every method says who has to call it."""

    def __init__(self, folder: Path, world: World, keep: int, about: dict[str, Any]) -> None:
        self.folder, self.world, self.keep = folder, world, keep
        self.about = json.loads(json.dumps(about, default=str))  # the run's choices, as JSON

    # Saving. The order is everything: write, wait for all, describe, publish, only then prune.

    def save(self, step: int, state: State) -> None:
        """All ranks: save the state after a step."""
        temporary = self.begin(step)
        self.write(state, temporary)
        self.world.barrier()  # every rank's part is on the disk
        if self.world.leads:
            self.describe(temporary, step)
            self.publish(temporary, step)
            self.prune(step)
        self.world.barrier()  # nobody runs ahead of a checkpoint that might still fail

    def begin(self, step: int) -> Path:
        """All ranks: an empty folder to write to, that nobody takes for a checkpoint."""
        temporary = self.folder / f".tmp-{self.path(step).name}"
        if self.world.leads:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
        self.world.barrier()
        return temporary

    def write(self, state: State, folder: Path) -> None:
        """All ranks: write this rank's part."""
        dcp.save(state.save_sharded(), storage_writer=dcp.FileSystemWriter(folder / "sharded"))
        if self.world.leads:
            write_tensors(folder / "shared.pt", state.save_shared())
        write_tensors(folder / f"rank-{self.world.rank:05d}.pt", state.save_local())

    def describe(self, folder: Path, step: int) -> None:
        """Rank 0: write down what there is, so that it can be known again."""
        manifest: Manifest = {
            "format": FORMAT,
            "step": step,
            "world_size": self.world.size,
            "about": self.about,
            "files": {
                str(path.relative_to(folder)): {"bytes": path.stat().st_size, "blake2b": sum_}
                for path, sum_ in ((path, checksum(path, sync=True)) for path in files(folder))
            },
        }
        manifest["checksum"] = self_checksum(manifest)
        with (folder / "manifest.json").open("w") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder / "sharded")
        sync_folder(folder)

    def publish(self, temporary: Path, step: int) -> None:
        """Rank 0: let it appear, whole, in one instant that outlives a power cut."""
        final = self.path(step)
        if final.exists():  # we are past it again, so it is one that we refused: out of the way
            refused = self.folder / f".tmp-refused-{final.name}"
            os.rename(final, refused)
            shutil.rmtree(refused, ignore_errors=True)
        os.rename(temporary, final)
        sync_folder(self.folder)

    def prune(self, step: int) -> None:
        """Rank 0: remove the oldest, by number; never the one just published or a later one."""
        published = [path for path in self.newest_first() if number(path) <= step]
        for path in published[self.keep :]:
            # Hide it first: half a removal must not look like a damaged checkpoint.
            doomed = self.folder / f".tmp-pruned-{path.name}"
            os.rename(path, doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    # Finding one to resume from.

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def newest_first(self) -> list[Path]:
        """Every published checkpoint, in the order of its *number*; names are but text."""
        found = [path for path in self.folder.glob("step-*") if number(path) >= 0]
        return sorted(found, key=number, reverse=True)

    def newest_valid(self) -> Path | None:
        """All ranks: the checkpoint to resume from; rank 0 looks, everyone takes its word.

        None if there is no checkpoint at all. If there are some and none can be trusted, this is
        for a person to look at: starting from scratch now would bury the run.
        """
        chosen: Path | None = None
        problem: str | None = None
        if self.world.leads:
            self.sweep()
            candidates = self.newest_first()
            for path in candidates:
                try:
                    manifest = self.validate(path)
                except (Invalid, OSError) as reason:
                    self.world.say(f"refused {path.name}: {reason}")
                else:
                    chosen, problem = path, self.mismatch(manifest)
                    break
            if candidates and chosen is None:
                problem = (
                    f"none of the {len(candidates)} checkpoints in {self.folder} is valid; "
                    "restore one, or move them away to start from scratch"
                )
        chosen, problem = self.world.agree((chosen, problem))
        if problem is not None:
            raise Refused(problem)
        return chosen

    def sweep(self) -> None:
        """Rank 0: clear away what crashed saves left behind."""
        for path in self.folder.glob(".tmp-*"):
            shutil.rmtree(path, ignore_errors=True)

    def validate(self, path: Path) -> Manifest:
        """Is this, to the last bit, what was saved? Nothing is unpickled to find out."""
        try:
            manifest = json.loads((path / "manifest.json").read_bytes())
        except FileNotFoundError:
            raise Invalid("manifest.json is missing") from None
        except ValueError:
            raise Invalid("manifest.json is not readable") from None
        if not isinstance(manifest, dict) or manifest.get("checksum") != self_checksum(manifest):
            raise Invalid("manifest.json does not match its own checksum")
        if manifest["format"] != FORMAT:
            raise Invalid(f"its format is {manifest['format']}, this program reads {FORMAT}")
        if manifest["step"] != number(path):
            raise Invalid(f"its manifest is that of step {manifest['step']}")
        for name, expected in manifest["files"].items():
            file = path / name
            if not file.is_file():
                raise Invalid(f"{name} is missing")
            if (size := file.stat().st_size) != expected["bytes"]:
                raise Invalid(f"{name} has {size} bytes instead of {expected['bytes']}")
            if checksum(file) != expected["blake2b"]:
                raise Invalid(f"{name} does not match its checksum")
        return manifest

    def mismatch(self, manifest: Manifest) -> str | None:
        """A good checkpoint of another run than ours: which world, which choices?"""
        size, step = manifest["world_size"], manifest["step"]
        if size != self.world.size:
            return (
                f"the checkpoint of step {step} was saved by a world size of {size}, this run has "
                f"a world size of {self.world.size}: start it with {size} ranks"
            )
        then = manifest["about"]
        changed = [k for k in sorted(then | self.about) if then.get(k) != self.about.get(k)]
        if changed:
            listed = ", ".join(f"{k} was {then.get(k)}, is {self.about.get(k)}" for k in changed)
            return f"the checkpoint of step {step} belongs to another configuration: {listed}"
        return None

    def read(self, state: State, path: Path) -> None:
        """All ranks: put the state back. Only ever called with a path that was validated."""
        # Read into fresh tensors: nothing live is touched before everything has been read.
        sharded = tree_map(blank, state.save_sharded())
        dcp.load(sharded, storage_reader=dcp.FileSystemReader(path / "sharded"))
        shared = read_tensors(path / "shared.pt")
        local = read_tensors(path / f"rank-{self.world.rank:05d}.pt")
        state.restore_sharded(sharded)
        state.restore_shared(shared)
        state.restore_local(local)


def number(path: Path) -> int:
    """The step in a checkpoint's name, or -1 if it is not one's."""
    match = re.fullmatch(r"step-(\d+)", path.name)
    return int(match[1]) if match else -1


def files(folder: Path) -> Iterator[Path]:
    """All files beneath, in a fixed order."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def checksum(path: Path, *, sync: bool = False) -> str:
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def self_checksum(manifest: Manifest) -> str:
    rest = {k: v for k, v in manifest.items() if k != "checksum"}
    return hashlib.blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=32).hexdigest()


def sync_folder(folder: Path) -> None:
    """Names live in their folder: without this, a power cut may undo a rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_tensors(path: Path, content: dict[str, Any]) -> None:
    with path.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())


def read_tensors(path: Path) -> dict[str, Any]:
    """Tensors and plain values; `weights_only` executes nothing that a file might contain."""
    return torch.load(path, map_location="cpu", weights_only=True)


def blank(leaf: Any) -> Any:
    return torch.empty_like(leaf) if isinstance(leaf, torch.Tensor) else leaf
