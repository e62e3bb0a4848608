"""The metrics of a run: one line a step, each step once, however often the run was interrupted.

OUT/metrics.jsonl holds {"step": 12, "loss": "0x1.9p+1", "lr": 0.003}, the loss to the last bit.

A thread writes them: no step waits for a disk. A checkpoint does, since whoever resumes from it writes no older line.
"""

import json
import os
from pathlib import Path
from threading import Event, Lock, Thread

from tinymodels.durable import make_folder, sync_folder, write_text
from tinymodels.world import World


class Metrics:
    """Written by rank 0; the others may call the same methods."""

    def __init__(self, path: Path, world: World) -> None:
        self.path, self.world = path, world
        self.pending: list[str] = []  # lines
        self.writing = Lock()
        self.torn: int | None = None  # where a write that failed may have left a part
        self.news = Event()
        self.thread: Thread | None = None

    def rewind(self, step: int) -> None:
        """Before training goes on after a step: cut off what was written past it, by the launch before or this one."""
        if not self.world.leads:
            return
        make_folder(self.path.parent)
        with self.writing:  # after a rollback there is a thread, and perhaps lines that it could not write
            self.pending, self.torn = [line for line in self.pending if is_kept(line, step)], None
            if self.path.exists():
                lines = self.path.read_text(errors="replace").splitlines(keepends=True)
                write_text(self.path, "".join(line for line in lines if is_kept(line, step)))

    def log(self, step: int, loss: float, rate: float) -> None:
        if not self.world.leads:
            return
        self.pending.append(json.dumps({"step": step, "loss": loss.hex(), "lr": rate}) + "\n")
        self.news.set()
        if self.thread is None:
            self.thread = Thread(target=self.work, daemon=True)
            self.thread.start()

    def work(self) -> None:
        """The thread: write what there is."""
        while True:
            self.news.wait()
            self.news.clear()
            try:
                self.write()
            except OSError as problem:
                self.world.say(f"metrics are held back: {problem}")

    def sync(self) -> None:
        """Every line so far is on the disk; OSError if it is not."""
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
    """A whole line of a step that was not undone. A crash may have left a part of one, or anything."""
    try:
        return line.endswith("}\n") and json.loads(line)["step"] <= step
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
