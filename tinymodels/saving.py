"""How a checkpoint is made: all ranks write their parts, and rank 0 makes a checkpoint of them.

The order is everything: write, wait for all, describe, publish, and only then prune. Each of these is really on the
disk before the next begins, so that a power cut at any instant leaves the newest published checkpoint as it was.
"""

import json
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.staging import AsyncStager

from tinymodels import delta, manifest, sharded
from tinymodels.durable import make_folder, sync_folder, wait_for, write_tensors, write_text
from tinymodels.manifest import Invalid, number
from tinymodels.replica import Replica
from tinymodels.state import State
from tinymodels.store import Store
from tinymodels.together import Unwritten, together
from tinymodels.world import World


class Saving(Store):
    """The part of `Checkpoints` that saves. Every method says who has to call it."""

    ATTEMPTS = 3
    PAUSE = 0.2  # seconds before another attempt, and twice as long before the next
    LATE = 20.0  # seconds after which a name that another host has made should be seen,
    SEEN = 5.0  # and one that was made before this launch

    def __init__(
        self,
        folder: Path,
        world: World,
        keep: int,
        about: dict[str, Any],
        *,
        keep_epochs: bool = False,
        keep_best: bool = False,
        elastic: bool = False,
        form: str = "dcp",
        delta_every: int = 1,
        save_async: bool = False,
        write_delay: float = 0.0,
        replica: Path | None = None,
    ) -> None:
        super().__init__(folder, keep, keep_epochs=keep_epochs, keep_best=keep_best)
        self.world = world
        self.about = json.loads(json.dumps(about, default=str))  # the run's choices, as JSON
        self.elastic = elastic  # may the number of ranks change?
        self.marker = folder.parent / "run.json"
        self.aside = world.aside()
        self.form, self.delta_every = form, delta_every
        self.save_async, self.write_delay = save_async, write_delay
        self.replica = None if replica is None or not world.leads else self.open_replica(replica)
        self.trusted: Path | None = None  # the newest that was published or resumed from by this launch
        self.base: Path | None = None  # what the one being written is a delta to
        self.notes: dict[str, Any] = {}  # what retention wants to know of it
        self.files: manifest.Files = {}  # what all ranks have written of it
        self.writing: Future[Any] | None = None  # the asynchronous save that is on its way,
        self.unpublished = (folder, 0)  # its folder and its step

    def open_replica(self, folder: Path) -> Replica:
        """Rank 0: the second store, which keeps as many."""
        store = Store(folder, self.keep, keep_epochs=self.keep_epochs, keep_best=self.keep_best)
        return Replica(store, self.world.say)

    def save(self, step: int, state: State) -> bool:
        """All ranks: save the state after a step. A disk that fails costs this checkpoint, not the run.

        False if it came to nothing; True if it is published, or on its way (--save-async).
        """
        self.settle()
        for attempt in range(1, self.ATTEMPTS + 1):
            try:
                self.base = self.choose_base() if attempt == 1 else None
                self.attempt(step, state)
                return True
            except Unwritten as problem:
                self.world.say(f"saving step {step} failed, attempt {attempt} of {self.ATTEMPTS}: {problem}")
                time.sleep(self.PAUSE * attempt)
        self.world.say(f"going on without a checkpoint of step {step}; older ones are kept")
        return False

    def attempt(self, step: int, state: State) -> None:
        """All ranks: try to save, once. `Unwritten`, on all of them, if a disk failed."""
        temporary = self.begin(step)
        try:
            together(self.world, lambda: self.write(state, temporary))
        except Unwritten:
            self.abandon()
            raise
        if self.writing is None:
            self.complete(temporary, step)
        else:
            self.unpublished = temporary, step

    def complete(self, temporary: Path, step: int) -> None:
        """All ranks: everything is written; make it a checkpoint."""
        own = together(self.world, lambda: self.vouch(temporary))
        self.files = {name: file for files in self.world.gather(own) for name, file in files.items()}
        together(self.world, lambda: self.finish(temporary, step))
        self.trusted = self.path(step)

    def settle(self) -> bool:
        """All ranks: wait for the asynchronous save that is on its way, if there is one, and publish it.

        False if that came to nothing.
        """
        if self.writing is None:
            return True
        (temporary, step), writing = self.unpublished, self.writing
        self.writing = None
        try:
            together(self.world, writing.result)
            self.complete(temporary, step)
        except Unwritten as problem:  # by now the state is another: too late to try again
            self.world.say(f"saving step {step} failed: {problem}; older checkpoints are kept")
            return False
        return True

    def poll(self) -> None:
        """All ranks, once a step: publish an asynchronous save as soon as all have written their part."""
        if self.writing is not None and not self.world.any(not self.writing.done()):
            self.settle()

    def leave(self) -> None:
        """All ranks, at the end of a launch or before a rollback: give the replica its time."""
        if self.replica is not None:
            self.replica.settle(self.LATE)

    @property
    def busy(self) -> bool:
        """Is a thread of this rank still writing?"""
        return self.writing is not None and not self.writing.done()

    def abandon(self) -> None:
        """All ranks: a disk failed beside an asynchronous save; let its thread end, and forget it."""
        if self.writing is not None:
            wait([self.writing])
            self.writing = None

    def choose_base(self) -> Path | None:
        """All ranks: what the next one is to be a delta to; None if it is time for a full one (--delta-every)."""
        if self.delta_every == 1 or self.trusted is None:
            return None
        base = None
        if self.world.leads:
            with suppress(Invalid):
                base = self.trusted if len(delta.chain(self.trusted)) < self.delta_every else None
        return self.world.agree(base)

    def begin(self, step: int) -> Path:
        """All ranks: an empty folder to write to, that nobody takes for a checkpoint."""
        temporary = self.folder / f".tmp-{self.path(step).name}"
        together(self.world, lambda: self.make(temporary))  # where that fails, there is nothing to look out for
        together(self.world, lambda: self.look_out(temporary))
        return temporary

    def make(self, temporary: Path) -> None:
        """Rank 0: make that folder."""
        if self.world.leads:
            make_folder(self.folder)
            self.sweep()  # a save that failed has left its part, perhaps on a full disk
            (temporary / "sharded").mkdir(parents=True)

    def look_out(self, temporary: Path) -> None:
        """All ranks: until they see it, too."""
        wait_for([temporary / "sharded"], self.LATE)

    def write(self, state: State, folder: Path) -> None:
        """All ranks: write this rank's part."""
        self.notes = state.notes()
        self.write_sharded(state, folder)
        if self.world.leads:
            write_tensors(folder / "shared.pt", state.save_shared())
        self.write_local(state, folder)

    def write_local(self, state: State, folder: Path) -> None:
        """All ranks: write what is this rank's alone."""
        write_tensors(self.part(folder, self.world.rank), state.save_local())

    def write_sharded(self, state: State, folder: Path) -> None:
        """All ranks: write the tensors, or copy them and let a thread write the copy (--save-async)."""
        tensors = state.save_sharded()
        if self.save_async:
            self.writing = sharded.write_async(tensors, folder, self.stager(), self.aside, self.write_delay)
        else:
            sharded.write(tensors, folder, self.world, self.form, self.aside, self.write_delay)

    def stager(self) -> AsyncStager:
        """What takes the copy that an asynchronous save writes."""
        return sharded.copying_stager()

    def vouch(self, folder: Path) -> manifest.Files:
        """All ranks: this rank's part, to the last bit, once all of it is really on the disk."""
        if self.base is not None:
            delta.shrink(folder, self.base, self.world.rank)
        return manifest.vouch(folder, self.world.rank)

    def finish(self, folder: Path, step: int) -> None:
        """Rank 0: every part is on the disk; make it a checkpoint."""
        if not self.world.leads:
            return
        self.describe(folder, step)
        self.publish(folder, step)
        try:
            self.mark()
            self.prune(step)
        except OSError as problem:  # it is published all the same
            self.world.say(f"after saving step {step}: {problem}")
        if self.replica is not None:
            self.replica.offer(self.path(step))

    def describe(self, folder: Path, step: int) -> None:
        """Rank 0: write down what there is, so that it can be known again."""
        wait_for((folder / name for name in self.files), self.LATE)  # whoever resumes must see it too
        base = None
        if self.base is not None:
            base = {"step": number(self.base), "checksum": manifest.read(self.base)["checksum"]}
        run = {"step": step, "world_size": self.world.size, "about": self.about}
        manifest.describe(folder, self.files, **run, notes=self.notes, base=base)

    def mark(self) -> None:
        """Rank 0: from now on, to find no checkpoint at all means that they are lost."""
        # Not before the first one is published, for good: a crash in between must not forbid a new start.
        if not self.marker.exists():
            make_folder(self.folder)
            sync_folder(self.folder)
            write_text(self.marker, json.dumps({"checkpoints": str(self.folder)}) + "\n")
