"""Save: all ranks write their parts, and rank 0 makes a checkpoint of them.

The order matters: write, wait for all ranks, describe, publish, and only then remove old checkpoints. Each of these
is on the disk before the next one begins. So a power cut at any moment leaves the newest published checkpoint as it
was.
"""

import json
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.staging import AsyncStager

from tinymodels.checkpoints import delta, formats, manifest
from tinymodels.checkpoints.durable import make_folder, sync_folder, wait_for, write_tensors, write_text
from tinymodels.checkpoints.manifest import Invalid, step_of
from tinymodels.checkpoints.replica import Replica
from tinymodels.checkpoints.state import State
from tinymodels.checkpoints.store import Store
from tinymodels.config import Config
from tinymodels.elasticity.collective_io import StorageFailed, on_all_ranks
from tinymodels.elasticity.world import World


class Saving(Store):
    """The part of `Checkpoints` that saves. The docstring of a method says which ranks call it."""

    ATTEMPTS = 3
    PAUSE = 0.2  # seconds before the second attempt, and twice as many before the third
    LATE = 20.0  # seconds to wait for a name that another host is creating
    SEEN = 5.0  # seconds to wait for a name that existed before this launch

    def __init__(self, config: Config, world: World, about: dict[str, Any]) -> None:
        super().__init__(
            config.checkpoints, config.keep, keep_epochs=config.keep_epochs, keep_best=config.keep_best
        )
        self.config, self.world = config, world
        self.about = json.loads(json.dumps(about, default=str))  # the options of the run, as JSON
        self.marker = self.folder.parent / "run.json"
        self.group = world.new_group()
        self.write_delay = config.write_delay
        copies = config.replica is not None and world.leads
        self.replica = self.open_replica(config.replica) if copies else None
        self.trusted: Path | None = None  # the newest that this launch has published or resumed from
        self.base: Path | None = None  # the checkpoint being written is a delta to this one
        self.notes: dict[str, Any] = {}  # of the checkpoint being written, for retention
        self.files: manifest.Files = {}  # of the checkpoint being written, of all ranks
        self.writing: Future[Any] | None = None  # the asynchronous save in progress
        self.unpublished = (self.folder, 0)  # and its folder and step

    def open_replica(self, folder: Path) -> Replica:
        """Rank 0: open the second store. It keeps as many checkpoints as the first."""
        store = Store(folder, self.keep, keep_epochs=self.keep_epochs, keep_best=self.keep_best)
        return Replica(store, self.world.say)

    def save(self, step: int, state: State) -> bool:
        """All ranks: save the state after a step. A failing disk costs this checkpoint, not the run.

        Returns False if nothing was saved, True if it is published or in progress (--save-async).
        """
        self.settle()
        for attempt in range(1, self.ATTEMPTS + 1):
            try:
                self.base = self.choose_base() if attempt == 1 else None
                self.attempt(step, state)
                return True
            except StorageFailed as problem:
                self.world.say(f"saving step {step} failed, attempt {attempt} of {self.ATTEMPTS}: {problem}")
                time.sleep(self.PAUSE * attempt)
        self.world.say(f"going on without a checkpoint of step {step}; older ones are kept")
        return False

    def attempt(self, step: int, state: State) -> None:
        """All ranks: try to save, once. Raises `StorageFailed` on all ranks."""
        temporary = self.begin(step)
        try:
            on_all_ranks(self.world, lambda: self.write(state, temporary))
        except StorageFailed:
            self.abandon()
            raise
        if self.writing is None:
            self.complete(temporary, step)
        else:
            self.unpublished = temporary, step

    def complete(self, temporary: Path, step: int) -> None:
        """All ranks: everything is written; make a checkpoint of it."""
        own = on_all_ranks(self.world, lambda: self.checksum_files(temporary))
        self.files = {name: file for files in self.world.gather(own) for name, file in files.items()}
        on_all_ranks(self.world, lambda: self.finish(temporary, step))
        self.trusted = self.path(step)

    def settle(self) -> bool:
        """All ranks: wait for the asynchronous save in progress, and publish it. Returns False if that failed."""
        if self.writing is None:
            return True
        (temporary, step), writing = self.unpublished, self.writing
        self.writing = None
        try:
            on_all_ranks(self.world, writing.result)
            self.complete(temporary, step)
        except StorageFailed as problem:  # the state has changed since, so there is no second attempt
            self.world.say(f"saving step {step} failed: {problem}; older checkpoints are kept")
            return False
        return True

    def poll(self) -> None:
        """All ranks, after each step: publish an asynchronous save as soon as all ranks have written their part."""
        if self.writing is not None and not self.world.any(not self.writing.done()):
            self.settle()

    def wait_for_replica(self) -> None:
        """All ranks, at the end of a launch or before a rollback: give the copies some time to finish."""
        if self.replica is not None:
            self.replica.wait(self.LATE)

    @property
    def busy(self) -> bool:
        """True while a thread of this rank is writing."""
        return self.writing is not None and not self.writing.done()

    def abandon(self) -> None:
        """All ranks: a disk failed during an asynchronous save. Wait for its thread and forget it."""
        if self.writing is not None:
            wait([self.writing])
            self.writing = None

    def choose_base(self) -> Path | None:
        """All ranks: choose the base of the next delta; None if a full checkpoint is due (--delta-every)."""
        if self.config.delta_every == 1 or self.trusted is None:
            return None
        base = None
        if self.world.leads:
            with suppress(Invalid):
                base = self.trusted if len(delta.chain(self.trusted)) < self.config.delta_every else None
        return self.world.agree(base)

    def begin(self, step: int) -> Path:
        """All ranks: create an empty folder that nobody takes for a checkpoint."""
        temporary = self.folder / f".tmp-{self.path(step).name}"
        on_all_ranks(self.world, lambda: self.make(temporary))  # if this fails, there is nothing to wait for
        on_all_ranks(self.world, lambda: self.wait_for_folder(temporary))
        return temporary

    def make(self, temporary: Path) -> None:
        """Rank 0: create that folder."""
        if self.world.leads:
            make_folder(self.folder)
            self.sweep()  # a save that failed may have left its files on a full disk
            (temporary / "sharded").mkdir(parents=True)

    def wait_for_folder(self, temporary: Path) -> None:
        """All ranks: wait until this host can see it."""
        wait_for([temporary / "sharded"], self.LATE)

    def write(self, state: State, folder: Path) -> None:
        """All ranks: write the part of this rank."""
        self.notes = state.notes()
        self.write_sharded(state, folder)
        if self.world.leads:
            write_tensors(folder / "shared.pt", state.save_shared())
        self.write_local(state, folder)

    def write_local(self, state: State, folder: Path) -> None:
        """All ranks: write what only this rank has."""
        write_tensors(self.rank_file(folder, self.world.rank), state.save_local())

    def write_sharded(self, state: State, folder: Path) -> None:
        """All ranks: write the tensors; or copy them, and let a thread write the copy (--save-async)."""
        tensors = state.save_sharded()
        if self.config.save_async:
            self.writing = formats.write_async(tensors, folder, self.stager(), self.group, self.write_delay)
        else:
            formats.write(tensors, folder, self.world, self.config.format, self.group, self.write_delay)

    def stager(self) -> AsyncStager:
        """Make the copy for an asynchronous save."""
        return formats.copying_stager()

    def checksum_files(self, folder: Path) -> manifest.Files:
        """All ranks: sync the files of this rank, and return their checksums."""
        if self.base is not None:
            delta.replace_by_deltas(folder, self.base, self.world.rank)
        return manifest.checksum_files(folder, self.world.rank)

    def finish(self, folder: Path, step: int) -> None:
        """Rank 0: all files are on the disk; describe and publish the checkpoint."""
        if not self.world.leads:
            return
        self.describe(folder, step)
        self.publish(folder, step)
        try:
            self.write_marker()
            self.prune(step)
        except OSError as problem:  # the checkpoint is published all the same
            self.world.say(f"after saving step {step}: {problem}")
        if self.replica is not None:
            self.replica.offer(self.path(step))

    def describe(self, folder: Path, step: int) -> None:
        """Rank 0: write the manifest."""
        wait_for((folder / name for name in self.files), self.LATE)  # this host may resume, and must see all files
        base = None
        if self.base is not None:
            base = {"step": step_of(self.base), "checksum": manifest.read(self.base)["checksum"]}
        run = {"step": step, "world_size": self.world.size, "about": self.about}
        manifest.describe(folder, self.files, **run, notes=self.notes, base=base)

    def write_marker(self) -> None:
        """Rank 0: note that this run has published a checkpoint. From now on, to find none means that all are lost.

        The marker comes after the first checkpoint: a crash between the two must not forbid a start from scratch.
        """
        if not self.marker.exists():
            make_folder(self.folder)
            sync_folder(self.folder)
            write_text(self.marker, json.dumps({"checkpoints": str(self.folder)}) + "\n")
