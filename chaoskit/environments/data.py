"""`Data`: the requests about the bytes of open files.

One method a request, which returns the parts of the answer, or None where it has answered already, or raises OSError.
Bytes are written under the lock of their file only: ranks do it side by side.

A large write is answered as soon as we have its bytes: while they go beneath, the job makes the next. Whatever looks at
that file waits for them. Standard library only.
"""

from __future__ import annotations

import errno
import os
import threading

from chaoskit.environments import fuse
from chaoskit.environments.archivist import give_up
from chaoskit.environments.fuse import Buffers, Connection, Request
from chaoskit.environments.handles import Handles
from chaoskit.environments.inodes import Inode
from chaoskit.environments.volume import Answer, Volume

#: Writes of so many bytes are answered before they are carried out, so many at a time, while so much space is left.
_LARGE, _BEHIND, _AMPLE = 1 << 16, 4, 1 << 27


class Data:
    """That of all open files of a volume. Requests are received in `buffers`."""

    def __init__(self, volume: Volume, handles: Handles, connection: Connection, buffers: Buffers) -> None:
        self._volume = volume
        self._handles = handles
        self._connection = connection
        self._buffers = buffers
        self._turn = volume.turn
        self._journalist = volume.journalist
        self._archivist = volume.archivist
        self._troubles = volume.troubles
        self._behind = threading.BoundedSemaphore(_BEHIND)

    def read(self, request: Request) -> Answer:
        fd, offset, size, *_ = fuse.TRANSFER.unpack_from(request.body)
        inode = self._handles[fd].inode
        self._volume.meet("read", request, inode)
        _catch_up(inode)
        return (request.space[: os.preadv(fd, [request.space[:size]], offset)],)

    def lseek(self, request: Request) -> Answer:
        fd, offset, whence, _ = fuse.LSEEK.unpack_from(request.body)
        _catch_up(self._handles[fd].inode)
        return (fuse.SOUGHT.pack(os.lseek(fd, offset, whence)),)

    def fallocate(self, request: Request) -> Answer:
        fd, offset, length, mode, _ = fuse.FALLOCATE.unpack_from(request.body)
        inode = self._handles[fd].inode
        self._volume.meet("write", request, inode, size=length)
        if mode:  # to punch a hole, and the like
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        with inode.lock, self._turn:
            before = os.fstat(fd).st_size
            os.posix_fallocate(fd, offset, length)
            if offset + length > before:
                self._volume.note("truncate", request, inode, size=offset + length)
        return ()

    def write(self, request: Request) -> Answer | None:
        fd, offset, size, _, _, flags, _ = fuse.TRANSFER.unpack_from(request.body)
        data = request.body[fuse.TRANSFER.size :][:size]
        inode = self._handles[fd].inode
        self._volume.meet("write", request, inode, size=size)
        if not flags & os.O_DSYNC:
            if size >= _LARGE and self._is_ample():
                self._write_behind(request, inode, fd, data, offset)
                return None
            if inode.behind and self._queue(request, inode, fd, data, offset):
                return (fuse.WRITTEN.pack(size, 0),)
        with inode.lock:
            done = os.pwrite(fd, data, offset)
            kept = self._keep(data[:done])
            with self._turn:
                self._volume.note("write", request, inode, offset=offset, size=done, data=kept)
                if flags & os.O_DSYNC:  # O_SYNC holds it
                    only = flags & os.O_SYNC != os.O_SYNC
                    self._volume.note("fsync", request, inode, since=self._journalist.count, only_data=only)
        self._wrote(inode, done)
        return (fuse.WRITTEN.pack(done, 0),)

    def settle(self) -> None:
        """Wait until all that was answered lies beneath, and is in the journal."""
        for _ in range(_BEHIND):
            self._behind.acquire()
        self._behind.release(_BEHIND)
        if self._archivist is not None:
            self._archivist.finish()

    def _write_behind(self, request: Request, inode: Inode, fd: int, data: memoryview, offset: int) -> None:
        """Note and answer it, and carry it out."""
        with self._behind:
            with inode.lock:
                inode.behind = True
                kept = self._archivist.reserve(len(data)) if self._archivist is not None else None
                with self._turn:
                    note = self._volume.note(
                        "write", request, inode, offset=offset, size=len(data), data=kept, done=False
                    )
                self._wrote(inode, len(data))
                self._connection.answer(request, fuse.WRITTEN.pack(len(data), 0))
                _carry_out(fd, data, offset)
                self._carry_out_queued(inode)
            if self._archivist is None or kept is None:
                self._journalist.settle(note)
                return
            buffer, request.buffer = request.buffer, self._buffers.take()

            def then() -> None:
                self._journalist.settle(note)
                self._buffers.give(buffer)

            self._archivist.keep_later(data, kept, then)

    def _queue(self, request: Request, inode: Inode, fd: int, data: memoryview, offset: int) -> bool:
        """Have a small write follow the large one that is on its way: the kernel cuts what does not begin at a page in
        two, and the job must not wait for the first at every second."""
        with self._turn:
            if not inode.behind:
                return False
            kept = self._keep(data)
            note = self._volume.note("write", request, inode, offset=offset, size=len(data), data=kept, done=False)
            inode.queue.append((fd, bytes(data), offset, note))
        self._wrote(inode, len(data))
        return True

    def _carry_out_queued(self, inode: Inode) -> None:
        while True:
            with self._turn:
                if not inode.queue:
                    inode.behind = False
                    return
                fd, data, offset, note = inode.queue.pop(0)
            _carry_out(fd, memoryview(data), offset)
            self._journalist.settle(note)

    def _keep(self, data: memoryview) -> int | None:
        """Keep it at once; where it is, None where nothing is kept."""
        if self._archivist is None:
            return None
        at = self._archivist.reserve(len(data))
        self._archivist.keep(data, at)
        return at

    def _wrote(self, inode: Inode, size: int) -> None:
        if self._troubles.any:
            self._troubles.wrote(inode.path, size)

    def _is_ample(self) -> bool:
        found = os.fstatvfs(self._volume.root)
        return found.f_bavail * found.f_frsize >= _AMPLE


def _carry_out(fd: int, data: memoryview, offset: int) -> None:
    """Write what was answered already."""
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(fd, data[done:], offset + done)
    except OSError as error:
        give_up(error)  # the job believes what is not so, and no honest answer is left


def _catch_up(inode: Inode) -> None:
    """Wait for what is still being written to it."""
    if inode.behind:
        with inode.lock:
            pass
