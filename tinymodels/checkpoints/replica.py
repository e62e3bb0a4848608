"""A second store, for the day on which the first one is lost. Rank 0 copies every published checkpoint to it.

Training never waits for a copy, and an error in the second store is reported but does not disturb the run. While one
copy is being made, only the newest checkpoint waits for the next; those between are left out.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Thread

from tinymodels.checkpoints import delta, manifest
from tinymodels.checkpoints.durable import make_folder, sync_folder
from tinymodels.checkpoints.manifest import Invalid, Manifest, step_of, verify
from tinymodels.checkpoints.store import Store


class Replica:
    """Copies checkpoints to a store of their own. Only rank 0 has one."""

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        self.store, self.say = store, say
        self.change = Condition()
        self.waiting: Path | None = None  # to be copied next
        self.copying: Path | None = None
        self.thread: Thread | None = None

    def offer(self, path: Path) -> None:
        """Ask for a copy of a new checkpoint. Returns at once."""
        with self.change:
            self.waiting = path
            self.change.notify_all()
            if self.thread is None:
                self.thread = Thread(target=self.work, daemon=True)
                self.thread.start()

    def work(self) -> None:
        """Copy the newest checkpoint that was offered, again and again. Runs in the thread."""
        while True:
            with self.change:
                self.copying = None
                self.change.notify_all()
                self.change.wait_for(lambda: self.waiting is not None)
                path, self.waiting = self.waiting, None
                self.copying = path
            if path is not None:
                self.keep(path)

    def keep(self, path: Path) -> None:
        """Copy one checkpoint, and remove old copies."""
        try:
            self.copy(path, self.store)
            self.store.prune(step_of(path))
        except (OSError, Invalid) as problem:
            if path.exists():  # if it does not, it was removed meanwhile, and a newer one is there
                self.say(f"{path.name} could not be copied to {self.store.folder}: {problem}")
            self.store.sweep()

    def wait(self, seconds: float) -> None:
        """Wait for the copies that are due, but not longer than this."""
        with self.change:
            done = self.change.wait_for(lambda: self.waiting is None and self.copying is None, seconds)
        if not done:
            self.say(f"the newest checkpoint is not in {self.store.folder} yet")

    def newest(self, after: int) -> tuple[Path, Manifest] | None:
        """Return the newest valid copy of a later step than this one."""
        self.store.sweep()
        for path in self.store.newest_first():
            if step_of(path) <= after:
                break
            try:
                return path, self.store.validate(path)
            except (Invalid, OSError) as reason:
                self.store.refused.add(path)
                self.say(f"refused {path.name} in {self.store.folder}: {reason}")
        return None

    def copy(self, path: Path, store: Store) -> None:
        """Copy a checkpoint into a store, after everything that it depends on. It appears whole and verified."""
        make_folder(store.folder)
        for link in reversed(delta.chain(path)):
            if self.is_there(link, store):
                continue
            temporary = store.folder / f".tmp-{link.name}"
            shutil.rmtree(temporary, ignore_errors=True)
            copy_folder(link, temporary)
            verify(temporary)
            store.publish(temporary, step_of(link))

    def is_there(self, link: Path, store: Store) -> bool:
        """Return True if the store has a valid checkpoint with the same manifest."""
        path = store.path(step_of(link))
        try:
            same = bool(store.validate(path)["checksum"] == manifest.read(link)["checksum"])
        except Invalid:
            return False
        if same:
            store.refused.discard(path)  # its base may have been damaged, and is restored now
        return same


def copy_folder(source: Path, target: Path) -> None:
    """Copy files and folders, and sync all of them."""
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_dir():
            copy_folder(path, target / path.name)
            continue
        with path.open("rb") as old, (target / path.name).open("wb") as new:
            shutil.copyfileobj(old, new, 1 << 20)
            new.flush()
            os.fsync(new.fileno())
    sync_folder(target)
