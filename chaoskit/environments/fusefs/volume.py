"""`Volume`: what the parts of the file system share: the source directory, its files by number, and the steps that
every request takes: meet injected errors, be recorded.

One thread at a time changes names, so the journal has the true order. Standard library only.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from chaoskit.environments.fusefs.access_log import AccessLog
from chaoskit.environments.fusefs.callers import Callers
from chaoskit.environments.fusefs.fuse import Request
from chaoskit.environments.fusefs.injected_errors import InjectedIOErrors
from chaoskit.environments.fusefs.inodes import Inode, Inodes, below
from chaoskit.environments.fusefs.journal_writer import JournalWriter, Note
from chaoskit.environments.fusefs.written_data import WrittenDataStore
from chaoskit.protocol.io_journal import Kind

#: The parts of the answer to a request.
Answer = tuple[bytes | memoryview, ...]

#: Whatever is opened beneath is opened with these.
ALWAYS = os.O_NOFOLLOW | os.O_CLOEXEC


class Volume:
    """The source directory, open as `root`. A thread that looks up or changes names, or writes to the journal,
    holds `turn`; one that also needs the lock of a file takes that lock first. Without `data_store` no bytes are
    kept; with `access_log` reads are recorded.
    """

    def __init__(
        self,
        root: int,
        journal_writer: JournalWriter,
        data_store: WrittenDataStore | None,
        troubles: InjectedIOErrors,
        access_log: AccessLog | None,
    ) -> None:
        self.root = root
        self.inodes = Inodes(root)
        self.turn = threading.RLock()
        self.journal_writer = journal_writer
        self.data_store = data_store
        self.troubles = troubles
        self._access_log = access_log
        self._callers = Callers()
        self._own = os.geteuid(), os.getegid()

    def meet(self, kind: str, request: Request, *files: Inode | tuple[Inode, str], size: int = 0) -> None:
        """Check whether a request about these files, or names in directories, may continue. Raises OSError."""
        if self._access_log is None and not self.troubles.any:
            return
        with self.turn:
            paths = tuple(below(*file) if isinstance(file, tuple) else file.path for file in files)
            if self._access_log is not None:
                self._access_log.note(request.op, paths)
        if self.troubles.any:
            self.troubles.meet(kind, paths, unique=request.unique, thread=request.thread, size=size)

    def note(self, kind: Kind, request: Request, inode: Inode, *, path: str | None = None, **told: Any) -> Note:
        """Write the request to the journal; see `JournalWriter.note`."""
        caller = self._callers.of(request.thread)
        return self.journal_writer.note(kind, inode.path if path is None else path, inode.number, caller, **told)

    def give(self, request: Request, path: str) -> None:
        """Give a file that root has made to the user who asked for it."""
        if self._own[0] == 0 and (request.uid, request.gid) != self._own:
            os.chown(path, request.uid, request.gid, dir_fd=self.root, follow_symlinks=False)

    def named(self, path: str, request: Request) -> None:
        """Note that a name is new."""
        if self.troubles.any_late:
            self.troubles.named(path, self.session(request))

    def session(self, request: Request) -> int:
        """The session of the requesting process."""
        return self._callers.of(request.thread).session

    def reach(self, inode: Inode, flags: int) -> int:
        """Open the file by a name or, if it has none left, through an open handle."""
        if not inode.names and inode.handles:
            return os.open(f"/proc/self/fd/{next(iter(inode.handles))}", flags | os.O_CLOEXEC)
        return os.open(inode.path or ".", flags | ALWAYS, dir_fd=self.root)
