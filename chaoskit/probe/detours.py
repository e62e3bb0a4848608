"""`Detours`: checkpoints that come to their place by a detour, through memory or a directory for temporary files.

Libraries of remote file systems take such: what is saved goes into a buffer, the buffer into a file of some other
place, and that is moved to where it belongs. The file of a buffer is the first below the job's `{out}` that the same
thread then opens to write bytes to, or moves something to. That of a temporary file is a new one of its name and size.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaoskit.probe.saves import Saves

#: What a thread does to files once it is done with the one before.
_AFTER = (
    "open",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.listdir",
    "os.scandir",
    "os.symlink",
    "os.link",
)


class Detours:
    """Of one rank. Nothing is looked at before the first such save."""

    #: How many times a copy of a temporary file is looked for, at one step after another.
    TRIES = 3

    def __init__(self, saves: Saves) -> None:
        self._saves = saves
        self._pending: Any = None
        self._thread = 0
        self._open: tuple[int, int, str] | None = None
        self._busy = False
        self._watches = False
        self._passed: list[tuple[int, str, int, float, int]] = []
        self._found: set[str] = set()

    def saved(self, state: Any) -> None:
        """A whole training state went into a buffer."""
        self._pending, self._thread = state, threading.get_ident()
        if not self._watches:
            self._watches = True
            sys.addaudithook(self._audit)

    def settle(self) -> None:
        """What was moved or opened last is written by now; what has come to no file, never will. Raises what the rank
        is ordered to raise."""
        self._pending = None
        if self._passed:
            self._saves.session.guard("detours", self._find)
        if self._open is not None:
            (ident, n, _), self._open = self._open, None
            self._saves.end("save", ident, n)
            self._saves.stop("saved", n)

    def passed(self, ident: int, path: str) -> None:
        """A save went to a temporary file."""
        about = os.stat(path)
        self._passed.append((ident, os.path.basename(path), about.st_size, about.st_mtime, self.TRIES))

    def _find(self) -> None:
        """Look for the copies of temporary files, which may have come without a word of Python's."""
        wanted, self._passed = self._passed, []
        there = [os.path.join(at, name) for at, _, names in os.walk(os.environ["CHAOSKIT_OUT"]) for name in names]
        for ident, name, size, written, tries in wanted:
            # Clocks of file systems are coarse.
            alike = [path for path in there if os.path.basename(path) == name and path not in self._found]
            times = {path: about.st_mtime for path in alike if (about := os.stat(path)).st_size == size}
            path = max(times, key=lambda each: times[each], default=None)
            if path is not None and times[path] >= written - 1:
                self._found.add(path)
                self._saves.session.write("save.found", id=ident, path=os.path.abspath(path))
            elif tries > 1:
                self._passed.append((ident, name, size, written, tries - 1))

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if (self._pending is None and self._open is None) or event not in _AFTER:
            return
        if self._busy or threading.get_ident() != self._thread:
            return
        self._busy = True
        try:
            path = self._saves.session.guard("detours", _written, event, arguments)
            if self._open is None:
                self._begin(path)
            elif path != self._open[2]:
                # A file that is moved is there at once; one that was opened is, when something else is done.
                self.settle()
        finally:
            self._busy = False

    def _begin(self, path: str | None) -> None:
        if path is None or not self._saves.watched(path):
            return
        state, self._pending = self._pending, None
        n = self._saves.steps
        self._open = self._saves.begin_save(path, "torch.save in memory", state, full=True), n, path
        self._saves.stop("save", n)


def _written(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The path that bytes are about to come to."""
    if event == "os.rename":
        target = arguments[1]
    elif event == "open":
        target, mode, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR) if isinstance(flags, int) else 0
        if not writes or (isinstance(mode, str) and "b" not in mode):
            return None
    else:
        return None
    if isinstance(target, int):
        return None
    return os.path.abspath(os.fsdecode(target))
