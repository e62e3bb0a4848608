"""The metrics of a run: one line for each step, and each step once, however often the run was interrupted.

OUT/metrics.jsonl holds {"step": 12, "loss": "0x1.9p+1", "lr": 0.003}, with the exact loss as a hexadecimal float.

A thread writes the lines, so no step waits for a disk. A checkpoint waits for them: the launch that resumes from it
does not write older lines again.
"""

import json
import os
from pathlib import Path
from threading import Event, Lock, Thread

from tinymodels.checkpoints.durable import make_folder, sync_folder, write_text
from tinymodels.elasticity.collective_io import StorageFailed, on_all_ranks
from tinymodels.elasticity.world import World


class Metrics:
    """Rank 0 writes. The other ranks may call the same methods."""

    def __init__(self, path: Path, world: World) -> None:
        self.path, self.world = path, world
        self.pending: list[str] = []  # lines
        self.writing = Lock()
        self.torn: int | None = None  # where a failed write may have left a part of a line
        self.news = Event()
        self.thread: Thread | None = None

    def rewind(self, step: int) -> None:
        """Cut off the lines after this step, before training goes on from it."""
        if not self.world.leads:
            return
        make_folder(self.path.parent)
        with self.writing:  # after a rollback there is a thread, and perhaps lines that it could not write
            self.pending, self.torn = [line for line in self.pending if is_kept(line, step)], None
            if self.path.exists():
                lines = self.path.read_text(errors="replace").splitlines(keepends=True)
                write_text(self.path, "".join(line for line in lines if is_kept(line, step)))

    def rewind_together(self, step: int) -> None:
        """Rewind on all ranks: `StorageFailed` on all of them if the disk fails."""
        on_all_ranks(self.world, lambda: self.rewind(step))

    def keep(self) -> None:
        """Force every line so far to the disk, on all ranks. A failing disk is reported, and does not end the run."""
        try:
            on_all_ranks(self.world, self.sync)
        except StorageFailed as problem:
            self.world.say(f"metrics are held back: {problem}")

    def log(self, step: int, loss: float, rate: float) -> None:
        if not self.world.leads:
            return
        self.pending.append(json.dumps({"step": step, "loss": loss.hex(), "lr": rate}) + "\n")
        self.news.set()
        if self.thread is None:
            self.thread = Thread(target=self.work, daemon=True)
            self.thread.start()

    def work(self) -> None:
        """Write what there is, again and again. Runs in the thread."""
        while True:
            self.news.wait()
            self.news.clear()
            try:
                self.write()
            except OSError as problem:
                self.world.say(f"metrics are held back: {problem}")

    def sync(self) -> None:
        """Force every line so far to the disk, or raise OSError."""
        if not self.world.leads or not (self.pending or self.path.exists()):
            return
        self.write()
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        sync_folder(self.path.parent)

    def write(self) -> None:
        with self.writing, self.path.open("ab") as file:
            if self.torn is not None:
                file.truncate(self.torn)
            count = len(self.pending)
            self.torn = file.seek(0, os.SEEK_END)
            file.write("".join(self.pending[:count]).encode())
            file.flush()
            self.torn = None
            del self.pending[:count]


def is_kept(line: str, step: int) -> bool:
    """Return True for a whole line of this step or an earlier one. A crash may have left a part of a line."""
    try:
        return line.endswith("}\n") and json.loads(line)["step"] <= step
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
