"""`WrittenDataStore`: keeps the bytes for the journal of `chaoskit.protocol.io_journal`: everything written, in one
file, in any order.

Large pieces are kept later: while the job writes, or waits for the disk, both are its own. Standard library only.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

#: So many bytes may wait to be kept; half as many do until nothing more has come for so many seconds.
MOST, QUIET = 1 << 28, 0.02


class WrittenDataStore:
    """Begins the file `data` in `directory`, which must not hold one. For several threads."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / "data", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        self._end = 0
        self._waiting: deque[tuple[memoryview, int, Callable[[], None]]] = deque()
        self._size = self._came = self._calm = self._forcing = 0
        self._news = threading.Condition()
        self._hurry = threading.Event()
        threading.Thread(target=self._keep_all, daemon=True).start()

    def reserve(self, size: int) -> int:
        """Where so many bytes are to be kept."""
        with self._news:
            at, self._end = self._end, self._end + size
        return at

    def keep(self, data: memoryview, at: int) -> None:
        """Keep it there, now. Raises OSError."""
        done = 0
        while done < len(data):
            done += os.pwrite(self._fd, data[done:], at + done)

    def keep_later(self, data: memoryview, at: int, then: Callable[[], None]) -> None:
        """Keep it there, and call `then` when that has been done; until then `data` must stay as it is. Waits where too
        much is waiting."""
        with self._news:
            self._news.wait_for(lambda: self._size < MOST)
            self._waiting.append((data, at, then))
            self._size += len(data)
            self._came += 1
            if len(self._waiting) == 1:
                self._news.notify_all()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """For as long as the job waits for the disk, nothing is kept that can wait."""
        with self._news:
            self._forcing += 1
        try:
            yield
        finally:
            with self._news:
                self._forcing -= 1

    def finish(self) -> None:
        """Keep all that waits for it, now."""
        self._hurry.set()
        with self._news:
            self._news.wait_for(lambda: not self._waiting)
        self._hurry.clear()

    def _keep_all(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: bool(self._waiting))
            self._await_quiet()
            data, at, then = self._waiting[0]
            try:
                self.keep(data, at)
            except OSError as error:
                give_up(error)
            then()
            with self._news:
                self._waiting.popleft()
                self._size -= len(data)
                self._news.notify_all()

    def _await_quiet(self) -> None:
        """Until the job has stopped writing, or too much is waiting."""
        while self._size < MOST // 2 and (self._calm != self._came or self._forcing):
            came = self._came
            if self._hurry.wait(QUIET):
                return
            if self._came == came:
                self._calm = came


def give_up(error: OSError) -> NoReturn:
    """End the process: the disk could not carry out a write that the job was told had succeeded."""
    sys.stderr.write(f"the disk beneath the job's storage failed: {error}\n")
    sys.stderr.flush()
    os._exit(1)
