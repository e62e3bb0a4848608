"""`IndirectSaves`: checkpoints that are first saved to memory or to a temporary file, and then written to `{out}`.

Libraries for remote file systems save like this: they save to a buffer, write the buffer to a file elsewhere, and move
that. The final file of a buffer is the first below `{out}` that the same thread then opens for writing, or moves a file
to. That of a temporary file is a new file with the same name and size.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from chaoskit.probe.session import ProbeSession

#: Audit events after which a thread has finished writing the file before.
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


class SaveEvents(Protocol):
    """The part of `Saves` that records a save."""

    session: ProbeSession

    @property
    def steps(self) -> int: ...
    def watched(self, path: str | None) -> bool: ...
    def begin_save(self, path: str, api: str, state: Any, *, full: bool, passing: bool = False) -> int: ...
    def end(self, kind: str, ident: int, n: int, *, wrote: str = "") -> None: ...
    def stop(self, at: str, n: int) -> None: ...


class IndirectSaves:
    """Those of one rank. Nothing is watched before the first such save."""

    #: The number of steps at which a copy of a temporary file is looked for.
    TRIES = 3

    def __init__(self, saves: SaveEvents) -> None:
        self._saves = saves
        self._pending: tuple[Any, int] | None = None
        self._thread = 0
        self._open: tuple[int, int, str] | None = None
        self._busy = False
        self._watches = False
        self._passed: list[tuple[int, str, int, float, int]] = []
        self._found: set[str] = set()

    def saved(self, state: Any, size: int) -> None:
        """A complete training state was saved to a buffer of `size` bytes."""
        self._pending, self._thread = (state, size), threading.get_ident()
        if not self._watches:
            self._watches = True
            sys.addaudithook(self._audit)

    def settle(self) -> None:
        """Finish pending saves: a file that was opened or moved last is written by now; a buffer without a file is
        dropped. Raises the exception that is ordered at the gate."""
        if self._passed:
            self._saves.session.guard("detours", self._find)
        if self._open is not None:
            self._close()
        self._pending = None

    def _close(self) -> None:
        """Record the save if the size shows that the file holds the buffer; else another file may."""
        assert self._open is not None and self._pending is not None
        (ident, n, path), self._open = self._open, None
        here = self._saves.session.guard("detours", _holds, path, self._pending[1])
        if here:
            self._pending = None
            self._saves.session.write("save.found", id=ident, path=path)
        self._saves.end("save", ident, n, wrote=path if here else "")
        if here:
            self._saves.stop("saved", n)

    def passed(self, ident: int, path: str) -> None:
        """A save was written to a temporary file."""
        about = os.stat(path)
        self._passed.append((ident, os.path.basename(path), about.st_size, about.st_mtime, self.TRIES))

    def _find(self) -> None:
        """Look for copies of temporary files; a copy may be made without any Python event."""
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
            # A moved file is complete at once; an opened one is when the thread does something else.
            if self._open is not None and path != self._open[2]:
                self._close()
            if self._open is None and self._pending is not None:
                self._begin(path)
        finally:
            self._busy = False

    def _begin(self, path: str | None) -> None:
        if path is None or not self._saves.watched(path):
            return
        assert self._pending is not None
        n = self._saves.steps
        ident = self._saves.begin_save(path, "torch.save in memory", self._pending[0], full=True, passing=True)
        self._open = ident, n, path
        self._saves.stop("save", n)


def _holds(path: str, size: int) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) >= size


def _written(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The path that is about to be written."""
    if event == "os.rename":
        target = arguments[1]
    elif event == "open":
        target, _, flags = arguments
        if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR) or flags & os.O_APPEND:
            return None
    else:
        return None
    if isinstance(target, int):
        return None
    return os.path.abspath(os.fsdecode(target))
