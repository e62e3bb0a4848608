"""`Volume`: what the parts of the file system share: the directory beneath, the files in it by their numbers, and how a
request meets what is wrong and is noted.

What names files is done by one thread at a time, so that the journal tells the true order. Standard library only.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from chaoskit.environments.archivist import Archivist
from chaoskit.environments.callers import Callers
from chaoskit.environments.fuse import Request
from chaoskit.environments.inodes import Inode, Inodes, below
from chaoskit.environments.journalist import Journalist, Note
from chaoskit.environments.sights import Sights
from chaoskit.environments.troubles import Troubles
from chaoskit.journal import Kind

#: The parts of the answer to a request.
Answer = tuple[bytes | memoryview, ...]

#: Whatever is opened beneath is opened with these.
ALWAYS = os.O_NOFOLLOW | os.O_CLOEXEC


class Volume:
    """The directory that `root` has open. Who looks names up or changes them, or notes something, has the `turn`; who
    needs the lock of a file as well takes that first. Nothing is kept where there is no archivist, and it is noted what
    is looked at where there are sights."""

    def __init__(
        self,
        root: int,
        journalist: Journalist,
        archivist: Archivist | None,
        troubles: Troubles,
        sights: Sights | None,
    ) -> None:
        self.root = root
        self.inodes = Inodes(root)
        self.turn = threading.RLock()
        self.journalist = journalist
        self.archivist = archivist
        self.troubles = troubles
        self._sights = sights
        self._callers = Callers()
        self._own = os.geteuid(), os.getegid()

    def meet(self, kind: str, request: Request, *files: Inode | tuple[Inode, str], size: int = 0) -> None:
        """A request is about these files, or names in directories: look whether it may go on. Raises OSError."""
        if self._sights is None and not self.troubles.any:
            return
        with self.turn:
            paths = tuple(below(*file) if isinstance(file, tuple) else file.path for file in files)
            if self._sights is not None:
                self._sights.note(request.op, paths)
        if self.troubles.any:
            self.troubles.meet(kind, paths, unique=request.unique, thread=request.thread, size=size)

    def note(self, kind: Kind, request: Request, inode: Inode, *, path: str | None = None, **told: Any) -> Note:
        """Into the journal with it; see `Journalist.note`."""
        caller = self._callers.of(request.thread)
        return self.journalist.note(kind, inode.path if path is None else path, inode.number, caller, **told)

    def give(self, request: Request, path: str) -> None:
        """What root has made for another user is the other's."""
        if self._own[0] == 0 and (request.uid, request.gid) != self._own:
            os.chown(path, request.uid, request.gid, dir_fd=self.root, follow_symlinks=False)

    def named(self, path: str, request: Request) -> None:
        """There is a name that was not there."""
        if self.troubles.any_late:
            self.troubles.named(path, self.session(request))

    def session(self, request: Request) -> int:
        """The session of who asks."""
        return self._callers.of(request.thread).session

    def reach(self, inode: Inode, flags: int) -> int:
        """Open it, by a name or, if it has none any more, by who has it open."""
        if not inode.names and inode.handles:
            return os.open(f"/proc/self/fd/{next(iter(inode.handles))}", flags | os.O_CLOEXEC)
        return os.open(inode.path or ".", flags | ALWAYS, dir_fd=self.root)
