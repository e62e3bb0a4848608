"""Checkpoints that can be trusted: whole or not there at all, and checked before they are read.

OUT/run.json                 the marker: checkpoints have been published here
OUT/checkpoints/             (likely a volume of its own, and one day not mounted)
    .tmp-step-00000030/      being written; a crash leaves it behind, nobody ever reads it
    step-00000020/           published by one rename, never touched again
        sharded/             torch.distributed.checkpoint: every rank writes its part
        shared.pt            what is equal on all ranks
        rank-00000.pt ...    what is not
        manifest.json        step, world size; size and checksum of every file above
"""

import json
import os
import re
import shutil
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import AsyncStager
from torch.utils._pytree import tree_map

from tinymodels.durable import read_tensors, sync_folder, write_tensors, write_text
from tinymodels.endings import Refused
from tinymodels.manifest import Invalid, Manifest, describe, saved_by, verify
from tinymodels.sharded import Writer, copying_stager
from tinymodels.state import State
from tinymodels.together import Unwritten, together
from tinymodels.world import World


class Checkpoints:
    """The checkpoints of one run, oldest to newest. Every method says who has to call it."""

    ATTEMPTS = 3

    def __init__(
        self,
        folder: Path,
        world: World,
        keep: int,
        about: dict[str, Any],
        *,
        elastic: bool = False,
        save_async: bool = False,
        write_delay: float = 0.0,
    ) -> None:
        self.folder, self.world, self.keep = folder, world, keep
        self.about = json.loads(json.dumps(about, default=str))  # the run's choices, as JSON
        self.elastic = elastic  # may the number of ranks change?
        self.marker = folder.parent / "run.json"
        self.aside = world.aside() if save_async else None
        self.write_delay = write_delay
        self.writing: Future[Any] | None = None  # the asynchronous save that is on its way,
        self.unpublished = (folder, 0)  # its folder and its step

    # Saving. The order is everything: write, wait for all, describe, publish, only then prune.

    def save(self, step: int, state: State) -> None:
        """All ranks: save the state after a step. A disk that fails costs this checkpoint, not the run."""
        self.settle()
        for attempt in range(1, self.ATTEMPTS + 1):
            try:
                self.attempt(step, state)
                return
            except Unwritten as problem:
                self.world.say(f"saving step {step} failed, attempt {attempt} of {self.ATTEMPTS}: {problem}")
        self.world.say(f"going on without a checkpoint of step {step}; older ones are kept")

    def attempt(self, step: int, state: State) -> None:
        """All ranks: try to save, once. `Unwritten`, on all of them, if a disk failed."""
        temporary = together(self.world, lambda: self.begin(step))
        try:
            together(self.world, lambda: self.write(state, temporary))
        except Unwritten:
            self.abandon()
            raise
        if self.writing is None:
            together(self.world, lambda: self.finish(temporary, step))
        else:
            self.unpublished = temporary, step

    def settle(self) -> None:
        """All ranks: wait for the asynchronous save that is on its way, if there is one, and publish it."""
        if self.writing is None:
            return
        (temporary, step), writing = self.unpublished, self.writing
        self.writing = None
        try:
            together(self.world, writing.result)
            together(self.world, lambda: self.finish(temporary, step))
        except Unwritten as problem:  # by now the state is another: too late to try again
            self.world.say(f"saving step {step} failed: {problem}; older checkpoints are kept")

    def poll(self) -> None:
        """All ranks, once a step: publish an asynchronous save as soon as all have written their part."""
        if self.writing is not None and not self.world.any(not self.writing.done()):
            self.settle()

    def abandon(self) -> None:
        """All ranks: a disk failed beside an asynchronous save; let its thread end, and forget it."""
        if self.writing is not None:
            wait([self.writing])
            self.writing = None

    def begin(self, step: int) -> Path:
        """All ranks: an empty folder to write to, that nobody takes for a checkpoint."""
        temporary = self.folder / f".tmp-{self.path(step).name}"
        if self.world.leads:
            self.sweep()  # a save that failed has left its part, perhaps on a full disk
            temporary.mkdir(parents=True)
        return temporary

    def write(self, state: State, folder: Path) -> None:
        """All ranks: write this rank's part."""
        self.write_sharded(state, folder)
        if self.world.leads:
            write_tensors(folder / "shared.pt", state.save_shared())
        write_tensors(self.part(folder, self.world.rank), state.save_local())

    def part(self, folder: Path, rank: int) -> Path:
        """A rank's own file in a checkpoint."""
        return folder / f"rank-{rank:05d}.pt"

    def write_sharded(self, state: State, folder: Path) -> None:
        """All ranks: write the tensors, or copy them and let a thread write the copy (--save-async)."""
        tensors, writer = state.save_sharded(), Writer(folder / "sharded", self.write_delay)
        if self.aside is None:
            dcp.save(tensors, storage_writer=writer)
            return
        stager = self.stager()
        self.writing = dcp.async_save(
            tensors, storage_writer=writer, async_stager=stager, process_group=self.aside
        )
        self.writing.add_done_callback(lambda _: stager.close())

    def stager(self) -> AsyncStager:
        """What takes the copy that an asynchronous save writes."""
        return copying_stager()

    def finish(self, folder: Path, step: int) -> None:
        """Rank 0: every part is on the disk; make it a checkpoint."""
        if self.world.leads:
            self.describe(folder, step)
            self.publish(folder, step)
            self.mark()
            self.prune(step)

    def describe(self, folder: Path, step: int) -> None:
        """Rank 0: write down what there is, so that it can be known again."""
        describe(folder, step, self.world.size, self.about)

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

    def mark(self) -> None:
        """Rank 0: from now on, to find no checkpoint at all means that they are lost."""
        # Not before the first one is published: a crash in between must not forbid a new start.
        if not self.marker.exists():
            write_text(self.marker, json.dumps({"checkpoints": str(self.folder)}) + "\n")

    # Finding one to resume from.

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def newest_first(self) -> list[Path]:
        """Every published checkpoint, in the order of its *number*; names are but text."""
        found = [path for path in self.folder.glob("step-*") if number(path) >= 0]
        return sorted(found, key=number, reverse=True)

    def newest_valid(self) -> Path | None:
        """All ranks: the checkpoint to resume from; rank 0 looks, everyone takes its word.

        None if there never was one. If there are some and none can be trusted, or if there were
        some and all are gone, this is for a person to look at: starting from scratch now would
        bury the run.
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
                    self.mark()
                    break
            if candidates and chosen is None:
                problem = (
                    f"none of the {len(candidates)} checkpoints in {self.folder} is valid; "
                    f"restore one, or move them and {self.marker} away to start from scratch"
                )
            elif chosen is None and not self.may_start_from_scratch():
                problem = (
                    f"checkpoints are missing: this run has published some in {self.folder}, and "
                    f"there is none; is the volume mounted? remove {self.marker} to start from scratch"
                )
        chosen, problem = self.world.agree((chosen, problem))
        if problem is not None:
            raise Refused(problem)
        return chosen

    def may_start_from_scratch(self) -> bool:
        """Rank 0: there is no checkpoint; is that because there never was one?"""
        return not self.marker.exists()

    def sweep(self) -> None:
        """Rank 0: clear away what crashed saves left behind."""
        for path in self.folder.glob(".tmp-*"):
            shutil.rmtree(path, ignore_errors=True)

    def validate(self, path: Path) -> Manifest:
        """Is this, to the last bit, what was saved under this name? `Invalid` says why not."""
        manifest = verify(path)
        if manifest["step"] != number(path):
            raise Invalid(f"its manifest is that of step {manifest['step']}")
        # Whole means: with the parts of all ranks that saved it, however many we are today.
        for rank in range(manifest["world_size"]):
            if not self.part(path, rank).is_file():
                raise Invalid(f"the part of rank {rank} is missing")
        return manifest

    def mismatch(self, manifest: Manifest) -> str | None:
        """A good checkpoint of another run than ours: which world, which choices?"""
        size, step = manifest["world_size"], manifest["step"]
        if size != self.world.size and not self.elastic:
            return (
                f"the checkpoint of step {step} was saved by a world size of {size}, this run has "
                f"a world size of {self.world.size}: start it with {size} ranks (a run that begins "
                "with --global-batch may change them)"
            )
        then = manifest["about"]
        changed = [k for k in sorted(then | self.about) if then.get(k) != self.about.get(k)]
        if changed:
            listed = ", ".join(f"{k} was {then.get(k)}, is {self.about.get(k)}" for k in changed)
            return f"the checkpoint of step {step} belongs to another configuration: {listed}"
        return None

    def read(self, state: State, path: Path) -> None:
        """All ranks: put the state back. Only ever called with a path that was validated."""
        # Read into fresh tensors: nothing live is touched before everything has been read. Each rank
        # reads what it holds today, whichever ranks have written it.
        sharded = tree_map(blank, state.save_sharded())
        dcp.load(sharded, storage_reader=dcp.FileSystemReader(path / "sharded"))
        shared = read_tensors(path / "shared.pt")
        local = self.read_local(path)
        state.restore_sharded(sharded)
        state.restore_shared(shared)
        if local is None:
            state.start_local(self.world.rank)
        else:
            state.restore_local(local)

    def read_local(self, path: Path) -> dict[str, Any] | None:
        """This rank's own part, or None if there was no such rank.

        The manifest knows; whether a file can be seen is no answer, on a file system that is shared.
        """
        if self.world.rank >= saved_by(path):
            return None
        return read_tensors(self.part(path, self.world.rank))


def number(path: Path) -> int:
    """The step in a checkpoint's name, or -1 if it is not one's."""
    match = re.fullmatch(r"step-(\d+)", path.name)
    return int(match[1]) if match else -1


def blank(leaf: Any) -> Any:
    return torch.empty_like(leaf) if isinstance(leaf, torch.Tensor) else leaf
