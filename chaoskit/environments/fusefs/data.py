"""`Data`: the requests about the content of open files.

Each method handles one request and returns the parts of the answer, or None if it has answered already, or raises
OSError. Bytes are written under the lock of their file only, so ranks write in parallel.

A large write is answered as soon as its bytes have arrived; the job makes the next one while we write them. Every
other request for that file waits for them. Standard library only.
"""

from __future__ import annotations

import errno
import os
import threading

from chaoskit.environments.fusefs import fuse
from chaoskit.environments.fusefs.fuse import Buffers, Connection, Request
from chaoskit.environments.fusefs.handles import Handles
from chaoskit.environments.fusefs.inodes import Inode
from chaoskit.environments.fusefs.volume import Answer, Volume
from chaoskit.environments.fusefs.written_data import give_up

#: Writes of so many bytes are answered before they are carried out, so many at a time, while so much space is left.
_LARGE, _BEHIND, _AMPLE = 1 << 16, 4, 1 << 27


class Data:
    """The content of all open files of a volume. Requests are received in `buffers`."""

    def __init__(self, volume: Volume, handles: Handles, connection: Connection, buffers: Buffers) -> None:
        self._volume = volume
        self._handles = handles
        self._connection = connection
        self._buffers = buffers
        self._turn = volume.turn
        self._journal_writer = volume.journal_writer
        self._data_store = volume.data_store
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
                    self._volume.note("fsync", request, inode, since=self._journal_writer.count, only_data=only)
        self._wrote(request, inode, done)
        return (fuse.WRITTEN.pack(done, 0),)

    def settle(self) -> None:
        """Wait until everything that was answered is in the source directory and in the journal."""
        for _ in range(_BEHIND):
            self._behind.acquire()
        self._behind.release(_BEHIND)
        if self._data_store is not None:
            self._data_store.finish()

    def _write_behind(self, request: Request, inode: Inode, fd: int, data: memoryview, offset: int) -> None:
        """Record the write, answer it, and carry it out."""
        with self._behind:
            with inode.lock:
                inode.behind = True
                kept = self._data_store.reserve(len(data)) if self._data_store is not None else None
                with self._turn:
                    note = self._volume.note(
                        "write", request, inode, offset=offset, size=len(data), data=kept, done=False
                    )
                self._wrote(request, inode, len(data))
                self._connection.answer(request, fuse.WRITTEN.pack(len(data), 0))
                _carry_out(fd, data, offset)
                self._carry_out_queued(inode)
            if self._data_store is None or kept is None:
                self._journal_writer.settle(note)
                return
            buffer, request.buffer = request.buffer, self._buffers.take()

            def then() -> None:
                self._journal_writer.settle(note)
                self._buffers.give(buffer)

            self._data_store.keep_later(data, kept, then)

    def _queue(self, request: Request, inode: Inode, fd: int, data: memoryview, offset: int) -> bool:
        """Queue a small write behind the large one in progress. The kernel cuts a write that does not begin at a
        page in two, and the job should not wait for every second part.
        """
        with self._turn:
            if not inode.behind:
                return False
            kept = self._keep(data)
            note = self._volume.note("write", request, inode, offset=offset, size=len(data), data=kept, done=False)
            inode.queue.append((fd, bytes(data), offset, note))
        self._wrote(request, inode, len(data))
        return True

    def _carry_out_queued(self, inode: Inode) -> None:
        while True:
            with self._turn:
                if not inode.queue:
                    inode.behind = False
                    return
                fd, data, offset, note = inode.queue.pop(0)
            _carry_out(fd, memoryview(data), offset)
            self._journal_writer.settle(note)

    def _keep(self, data: memoryview) -> int | None:
        """Keep the bytes now. Returns where they are, or None if none are kept."""
        if self._data_store is None:
            return None
        at = self._data_store.reserve(len(data))
        self._data_store.keep(data, at)
        return at

    def _wrote(self, request: Request, inode: Inode, size: int) -> None:
        if self._troubles.any:
            self._troubles.wrote(inode.path, size, thread=request.thread)

    def _is_ample(self) -> bool:
        found = os.fstatvfs(self._volume.root)
        return found.f_bavail * found.f_frsize >= _AMPLE


def _carry_out(fd: int, data: memoryview, offset: int) -> None:
    """Write what was already answered."""
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(fd, data[done:], offset + done)
    except OSError as error:
        give_up(error)  # the job believes what is not so, and no honest answer is left


def _catch_up(inode: Inode) -> None:
    """Wait for writes to the file that are in progress."""
    if inode.behind:
        with inode.lock:
            pass
