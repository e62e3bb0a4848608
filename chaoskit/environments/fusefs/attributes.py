"""`Attributes`: the requests about the attributes of files: size, mode, owner, times.

Each method handles one request and returns the parts of the answer, or raises OSError. Standard library only.
"""

from __future__ import annotations

import os
import stat
import time
from typing import Any

from chaoskit.environments.fusefs import fuse
from chaoskit.environments.fusefs.fuse import Request
from chaoskit.environments.fusefs.inodes import Inode
from chaoskit.environments.fusefs.volume import Answer, Volume


class Attributes:
    """The attributes of all files and directories of a volume, and its free space."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._inodes = volume.inodes

    def getattr(self, request: Request) -> Answer:
        inode = self._inodes[request.node]
        self._volume.meet("lookup", request, inode)
        with inode.lock, self._volume.turn:
            return (fuse.attributes_answer(self._inodes.stat(inode)),)

    def setattr(self, request: Request) -> Answer:
        inode = self._inodes[request.node]
        told = fuse.SETATTR.unpack_from(request.body)
        valid, handle, size = told[0], told[2], told[3]
        others = valid & ~(fuse.SIZE | fuse.FH)
        if valid & fuse.SIZE:
            self._volume.meet("truncate", request, inode)
        if others or not valid & fuse.SIZE:
            self._volume.meet("chmod", request, inode)
        with inode.lock, self._volume.turn:
            if valid & fuse.SIZE:
                self._truncate(request, inode, size, handle if valid & fuse.FH else None)
            if others:
                self._change(request, inode, told)
            return (fuse.attributes_answer(self._inodes.stat(inode)),)

    def statfs(self, request: Request) -> Answer:
        troubles = self._volume.troubles
        self._volume.meet("space", request, self._inodes[request.node])
        full = troubles.any and troubles.full(thread=request.thread)
        return (fuse.space_answer(os.fstatvfs(self._volume.root), full=full),)

    def _truncate(self, request: Request, inode: Inode, size: int, handle: int | None) -> None:
        fd = handle if handle is not None else self._volume.reach(inode, os.O_WRONLY)
        try:
            os.ftruncate(fd, size)
        finally:
            if handle is None:
                os.close(fd)
        self._volume.note("truncate", request, inode, size=size)

    def _change(self, request: Request, inode: Inode, told: tuple[int, ...]) -> None:
        valid, atime, mtime, atimensec, mtimensec, mode, uid, gid = (
            told[at] for at in (0, 5, 6, 8, 9, 11, 13, 14)
        )
        at: Any = {"dir_fd": self._volume.root, "follow_symlinks": False}
        where: Any = inode.path or "."
        if not inode.names and inode.handles:
            where, at = next(iter(inode.handles)), {}
        if valid & (fuse.UID | fuse.GID):
            os.chown(where, uid if valid & fuse.UID else -1, gid if valid & fuse.GID else -1, **at)
        if valid & fuse.MODE:
            os.chmod(where, stat.S_IMODE(mode), dir_fd=self._volume.root if at else None)
            self._volume.note("chmod", request, inode, mode=stat.S_IMODE(mode))
        if valid & (fuse.ATIME | fuse.MTIME):
            found, now = self._inodes.stat(inode), time.time_ns()
            a = now if valid & fuse.ATIME_NOW else atime * 10**9 + atimensec
            m = now if valid & fuse.MTIME_NOW else mtime * 10**9 + mtimensec
            a, m = a if valid & fuse.ATIME else found.st_atime_ns, m if valid & fuse.MTIME else found.st_mtime_ns
            os.utime(where, ns=(a, m), **at)
