"""A second store, for the day on which the first is gone: every published checkpoint is copied there, in its own time.

Training never waits for it, and no trouble there is trouble here: it is told, and the next one is tried. While a copy
is being made the newest one waits, and those between are left out.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Thread

from tinymodels import delta, manifest
from tinymodels.durable import make_folder, sync_folder
from tinymodels.manifest import Invalid, Manifest, number, verify
from tinymodels.store import Store


class Replica:
    """Copies of checkpoints in a store of their own. For rank 0."""

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        self.store, self.say = store, say
        self.change = Condition()
        self.waiting: Path | None = None  # what is to be copied next
        self.copying: Path | None = None
        self.thread: Thread | None = None

    def offer(self, path: Path) -> None:
        """There is a new checkpoint. Returns at once."""
        with self.change:
            self.waiting = path
            self.change.notify_all()
            if self.thread is None:
                self.thread = Thread(target=self.work, daemon=True)
                self.thread.start()

    def work(self) -> None:
        """The thread: copy the newest that was offered, again and again."""
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
        try:
            self.bring(path, self.store)
            self.store.prune(number(path))
        except (OSError, Invalid) as problem:
            if path.exists():  # else it was pruned meanwhile: there is a newer one
                self.say(f"{path.name} could not be copied to {self.store.folder}: {problem}")
            self.store.sweep()

    def settle(self, seconds: float) -> None:
        """Before the process ends: wait for the copies that are due, so long at most."""
        with self.change:
            done = self.change.wait_for(lambda: self.waiting is None and self.copying is None, seconds)
        if not done:
            self.say(f"the newest checkpoint is not in {self.store.folder} yet")

    def newest(self, after: int) -> tuple[Path, Manifest] | None:
        """The newest copy that is valid and newer than a step."""
        self.store.sweep()
        for path in self.store.newest_first():
            if number(path) <= after:
                break
            try:
                return path, self.store.validate(path)
            except (Invalid, OSError) as reason:
                self.store.refused.add(path)
                self.say(f"refused {path.name} in {self.store.folder}: {reason}")
        return None

    def bring(self, path: Path, store: Store) -> None:
        """Copy it into a store, and before it all that it hangs on; it appears there whole and verified."""
        make_folder(store.folder)
        for link in reversed(delta.chain(path)):
            if self.is_there(link, store):
                continue
            temporary = store.folder / f".tmp-{link.name}"
            shutil.rmtree(temporary, ignore_errors=True)
            copy_folder(link, temporary)
            self.check(temporary)
            store.publish(temporary, number(link))

    def is_there(self, link: Path, store: Store) -> bool:
        path = store.path(number(link))
        try:
            same = bool(store.validate(path)["checksum"] == manifest.read(link)["checksum"])
        except Invalid:
            return False
        if same:
            store.refused.discard(path)  # it may have hung on one that was damaged, and is back
        return same

    def check(self, copy: Path) -> None:
        """Is this what was to be copied? What a disk says of its own writing is not asked."""
        verify(copy)


def copy_folder(source: Path, target: Path) -> None:
    """Files and folders, and all of it on the disk."""
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
