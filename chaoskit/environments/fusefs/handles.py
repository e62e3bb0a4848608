"""`Handles`: what is open in the file system: the requests that open, sync and close files.

Each method handles one request and returns the parts of the answer, or raises OSError. No lock is held while
waiting for the disk: that takes long, and ranks do it in parallel. Standard library only.
"""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext
from dataclasses import dataclass, field

from chaoskit.environments.fusefs import fuse
from chaoskit.environments.fusefs.fuse import Connection, Request
from chaoskit.environments.fusefs.inodes import Inode, below
from chaoskit.environments.fusefs.volume import ALWAYS, Answer, Volume
from chaoskit.protocol.io_journal import Kind

#: Flags of an open file that are the kernel's affair, or ask for buffers that are not ours.
_NOT_PASSED = os.O_CREAT | os.O_EXCL | os.O_NOCTTY | os.O_APPEND | os.O_DIRECT | os.O_NONBLOCK


@dataclass(eq=False, slots=True)
class Handle:
    """An open file or directory; its number is that of the descriptor. `listed` are the entries of a directory."""

    fd: int
    inode: Inode
    listed: list[bytes] = field(default_factory=list)


class Handles:
    """All open files and directories of a volume."""

    def __init__(self, volume: Volume, connection: Connection) -> None:
        self._volume = volume
        self._connection = connection
        self._inodes = volume.inodes
        self._turn = volume.turn
        self._open_ones: dict[int, Handle] = {}

    def __getitem__(self, fd: int) -> Handle:
        """By its number; raises KeyError where it is not open."""
        return self._open_ones[fd]

    def open(self, request: Request) -> Answer:
        flags, _ = fuse.OPEN.unpack_from(request.body)
        inode = self._inodes[request.node]
        self._volume.meet("open", request, inode)
        return self._open(request, inode, flags)

    def create(self, request: Request) -> Answer:
        flags, mode, _, _ = fuse.CREATE.unpack_from(request.body)
        parent, (name,) = self._inodes[request.node], request.names(fuse.CREATE.size)
        self._volume.meet("create", request, (parent, name))
        with self._turn:
            path = below(parent, name)
            try:
                wanted = (flags & ~_NOT_PASSED & ~os.O_TRUNC) | os.O_CREAT | os.O_EXCL | ALWAYS
                fd = os.open(path, wanted, mode, dir_fd=self._volume.root)
            except FileExistsError:  # somebody was faster, or it was not known yet
                self._volume.troubles.told(path)
                if flags & os.O_EXCL:
                    raise
                inode, found = self._inodes.find(parent, name)
            else:
                self._volume.give(request, path)
                inode, found = self._inodes.find(parent, name, new=True)
                self._volume.note("create", request, inode, mode=stat.S_IMODE(found.st_mode))
                self._volume.named(path, request)
                inode.known += 1
                return (fuse.entry(inode.number + 1, found), *self._opened(fd, inode, flags))
        answer = self._open(request, inode, flags)
        with self._turn:
            inode.known += 1
            return (fuse.entry(inode.number + 1, self._inodes.stat(inode)), *answer)

    def opendir(self, request: Request) -> Answer:
        inode = self._inodes[request.node]
        self._volume.meet("open", request, inode)
        with self._turn:
            fd = os.open(inode.path or ".", os.O_RDONLY | os.O_DIRECTORY | ALWAYS, dir_fd=self._volume.root)
            return self._opened(fd, inode, 0)

    def fsync(self, request: Request) -> Answer:
        return self._force("fsync", request)

    def fsyncdir(self, request: Request) -> Answer:
        return self._force("fsyncdir", request)

    def release(self, request: Request) -> Answer:
        fd, *_ = fuse.RELEASE.unpack_from(request.body)
        handle = self._open_ones[fd]
        with handle.inode.lock, self._turn:
            del self._open_ones[fd]
            self._inodes.closed(handle.inode, fd)
            os.close(fd)
        return ()

    def _open(self, request: Request, inode: Inode, flags: int) -> Answer:
        if flags & os.O_TRUNC:
            self._volume.meet("truncate", request, inode)
        with inode.lock, self._turn:
            fd = self._volume.reach(inode, flags & ~_NOT_PASSED)
            if flags & os.O_TRUNC:
                self._volume.note("truncate", request, inode, size=0)
            return self._opened(fd, inode, flags)

    def _opened(self, fd: int, inode: Inode, flags: int) -> Answer:
        self._open_ones[fd] = Handle(fd, inode)
        inode.handles.add(fd)
        only_written = flags & os.O_ACCMODE == os.O_WRONLY
        direct = fuse.DIRECT_IO if only_written and self._connection.maps_direct else 0
        return (fuse.OPENED.pack(fd, direct, 0),)

    def _force(self, kind: Kind, request: Request) -> Answer:
        fd, flags, _ = fuse.FSYNC.unpack_from(request.body)
        inode, only_data = self._open_ones[fd].inode, bool(flags & fuse.FDATASYNC)
        data_store, journal_writer = self._volume.data_store, self._volume.journal_writer
        self._volume.meet(kind, request, inode)
        with inode.lock:  # what is being written is not forced
            since = journal_writer.count
        with data_store.undisturbed() if data_store is not None else nullcontext():
            (os.fdatasync if only_data else os.fsync)(fd)
        with self._turn:
            self._volume.note(kind, request, inode, since=since, only_data=only_data)
        return ()
