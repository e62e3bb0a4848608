"""`Beneath`: the file system itself: every request is carried out on the directory beneath, and noted if it changed or
forced anything.

One method a request, which returns the parts of the answer or raises OSError. What names files is done by one thread at
a time, so that the journal tells the true order. Bytes are written under the lock of their file only, and forced to the
disk under none: these take long, and ranks do them side by side.

A large write is answered as soon as we have its bytes: while they go beneath, the job makes the next. Whatever looks at
that file waits for them. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from chaoskit.environments import fuse
from chaoskit.environments.archivist import Archivist, give_up
from chaoskit.environments.callers import Callers
from chaoskit.environments.fuse import Buffers, Connection, Op, Request
from chaoskit.environments.inodes import Inode, Inodes, below
from chaoskit.environments.journalist import Journalist, Note
from chaoskit.environments.sights import Sights
from chaoskit.environments.troubles import Troubles
from chaoskit.journal import Kind
from chaoskit.launch.host import call

Answer = tuple[bytes | memoryview, ...]

#: Writes of so many bytes are answered before they are carried out, so many at a time, while so much space is left.
_LARGE, _BEHIND, _AMPLE = 1 << 16, 4, 1 << 27

#: Flags of an open file that are the kernel's affair, or ask for buffers that are not ours.
_NOT_PASSED = os.O_CREAT | os.O_EXCL | os.O_NOCTTY | os.O_APPEND | os.O_DIRECT | os.O_NONBLOCK
_ALWAYS = os.O_NOFOLLOW | os.O_CLOEXEC
_NOREPLACE, _EXCHANGE = 1, 2
_KINDS_OF_FILES = ((stat.S_IFDIR, "is_dir"), (stat.S_IFREG, "is_file"))


@dataclass(eq=False, slots=True)
class Handle:
    """An open file or directory; its number is that of the descriptor. `listed` are the entries of a directory."""

    fd: int
    inode: Inode
    listed: list[bytes] = field(default_factory=list)


class Beneath:
    """The directory that `root` has open, behind a connection whose requests are received in `buffers`."""

    def __init__(
        self,
        root: int,
        connection: Connection,
        buffers: Buffers,
        journalist: Journalist,
        archivist: Archivist | None,
        troubles: Troubles,
    ) -> None:
        self._inodes = Inodes(root)
        self._root = root
        self._journalist = journalist
        self._archivist = archivist
        self._troubles = troubles
        self._connection = connection
        self._buffers = buffers
        self._behind = threading.BoundedSemaphore(_BEHIND)
        self._callers = Callers()
        self._handles: dict[int, Handle] = {}
        self._turn = threading.RLock()
        self._own = os.geteuid(), os.getegid()
        #: Where it is noted what is looked at, if it is.
        self.sights: Sights | None = None

    # Names.

    def lookup(self, request: Request) -> Answer:
        parent, (name,) = self._inodes[request.node], request.names()
        self._meet("lookup", request, (parent, name))
        with self._turn:
            if self._troubles.any_late:
                path, session = below(parent, name), self._callers.of(request.thread).session
                if self._troubles.hides("lookup", path, session):
                    raise FileNotFoundError(errno.ENOENT, "not known yet")
            inode, found = self._inodes.find(parent, name)
            inode.known += 1
        if inode.behind:
            with inode.lock, self._turn:
                found = self._inodes.stat(inode)
        return (fuse.entry(inode.number + 1, found),)

    def forget(self, request: Request) -> Answer:
        with self._turn:
            self._inodes.forget(request.node, fuse.FORGET.unpack_from(request.body)[0])
        return ()

    def batch_forget(self, request: Request) -> Answer:
        count, _ = fuse.BATCH_FORGET.unpack_from(request.body)
        with self._turn:
            for number in range(count):
                at = fuse.BATCH_FORGET.size + number * fuse.FORGET_ONE.size
                self._inodes.forget(*fuse.FORGET_ONE.unpack_from(request.body, at))
        return ()

    def mkdir(self, request: Request) -> Answer:
        mode, _ = fuse.MKDIR.unpack_from(request.body)
        return self._make(
            "mkdir",
            request,
            fuse.MKDIR.size,
            lambda path: os.mkdir(path, mode, dir_fd=self._root),
            mode=mode & 0o7777,
        )

    def mknod(self, request: Request) -> Answer:
        mode, device, _, _ = fuse.MKNOD.unpack_from(request.body)
        # What is neither file nor directory has nothing to lose in a crash.
        return self._make(
            "create",
            request,
            fuse.MKNOD.size,
            lambda path: os.mknod(path, mode, device, dir_fd=self._root),
            noted=stat.S_ISREG(mode),
            mode=mode & 0o7777,
        )

    def symlink(self, request: Request) -> Answer:
        _, target = request.names()
        return self._make(
            "symlink", request, 0, lambda path: os.symlink(target, path, dir_fd=self._root), to=target
        )

    def link(self, request: Request) -> Answer:
        inode, parent = self._inodes[fuse.LINK.unpack_from(request.body)[0]], self._inodes[request.node]
        (name,) = request.names(fuse.LINK.size)
        self._meet("link", request, inode, (parent, name))
        with inode.lock, self._turn:
            old, new = inode.path, below(parent, name)
            if not inode.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._naming(
                new, lambda: os.link(old, new, src_dir_fd=self._root, dst_dir_fd=self._root, follow_symlinks=False)
            )
            inode, found = self._inodes.find(parent, name)
            inode.known += 1
            self._note("link", request, inode, path=old, to=new)
            self._named(new, request)
            return (fuse.entry(inode.number + 1, found),)

    def unlink(self, request: Request) -> Answer:
        return self._remove("unlink", request, os.unlink)

    def rmdir(self, request: Request) -> Answer:
        return self._remove("rmdir", request, os.rmdir)

    def rename(self, request: Request) -> Answer:
        (target,) = fuse.RENAME.unpack_from(request.body)
        return self._rename(request, target, 0, request.names(fuse.RENAME.size))

    def rename2(self, request: Request) -> Answer:
        target, flags, _ = fuse.RENAME2.unpack_from(request.body)
        return self._rename(request, target, flags, request.names(fuse.RENAME2.size))

    def readlink(self, request: Request) -> Answer:
        inode = self._inodes[request.node]
        self._meet("lookup", request, inode)
        with self._turn:
            return (os.fsencode(os.readlink(inode.path, dir_fd=self._root)),)

    # Attributes.

    def getattr(self, request: Request) -> Answer:
        inode = self._inodes[request.node]
        self._meet("lookup", request, inode)
        with inode.lock, self._turn:
            return (fuse.attributes_answer(self._inodes.stat(inode)),)

    def setattr(self, request: Request) -> Answer:
        inode = self._inodes[request.node]
        told = fuse.SETATTR.unpack_from(request.body)
        valid, handle, size = told[0], told[2], told[3]
        others = valid & ~(fuse.SIZE | fuse.FH)
        if valid & fuse.SIZE:
            self._meet("truncate", request, inode)
        if others or not valid & fuse.SIZE:
            self._meet("chmod", request, inode)
        with inode.lock, self._turn:
            if valid & fuse.SIZE:
                self._truncate(request, inode, size, handle if valid & fuse.FH else None)
            if others:
                self._change(request, inode, told)
            return (fuse.attributes_answer(self._inodes.stat(inode)),)

    def statfs(self, request: Request) -> Answer:
        self._meet("space", request, self._inodes[request.node])
        return (fuse.space_answer(os.fstatvfs(self._root), full=self._troubles.any and self._troubles.full),)

    # Files.

    def open(self, request: Request) -> Answer:
        flags, _ = fuse.OPEN.unpack_from(request.body)
        inode = self._inodes[request.node]
        self._meet("open", request, inode)
        return self._open(request, inode, flags)

    def create(self, request: Request) -> Answer:
        flags, mode, _, _ = fuse.CREATE.unpack_from(request.body)
        parent, (name,) = self._inodes[request.node], request.names(fuse.CREATE.size)
        self._meet("create", request, (parent, name))
        with self._turn:
            path = below(parent, name)
            try:
                wanted = (flags & ~_NOT_PASSED & ~os.O_TRUNC) | os.O_CREAT | os.O_EXCL | _ALWAYS
                fd = os.open(path, wanted, mode, dir_fd=self._root)
            except FileExistsError:  # somebody was faster, or it was not known yet
                self._troubles.told(path)
                if flags & os.O_EXCL:
                    raise
                inode, found = self._inodes.find(parent, name)
            else:
                self._give(request, path)
                inode, found = self._inodes.find(parent, name, new=True)
                self._note("create", request, inode, mode=stat.S_IMODE(found.st_mode))
                self._named(path, request)
                inode.known += 1
                return (fuse.entry(inode.number + 1, found), *self._opened(fd, inode, flags))
        answer = self._open(request, inode, flags)
        with self._turn:
            inode.known += 1
            return (fuse.entry(inode.number + 1, self._inodes.stat(inode)), *answer)

    def read(self, request: Request) -> Answer:
        fd, offset, size, *_ = fuse.TRANSFER.unpack_from(request.body)
        inode = self._handles[fd].inode
        self._meet("read", request, inode)
        _catch_up(inode)
        return (request.space[: os.preadv(fd, [request.space[:size]], offset)],)

    def write(self, request: Request) -> Answer | None:
        fd, offset, size, _, _, flags, _ = fuse.TRANSFER.unpack_from(request.body)
        data = request.body[fuse.TRANSFER.size :][:size]
        inode = self._handles[fd].inode
        self._meet("write", request, inode, size=size)
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
                self._note("write", request, inode, offset=offset, size=done, data=kept)
                if flags & os.O_DSYNC:  # O_SYNC holds it
                    only = flags & os.O_SYNC != os.O_SYNC
                    self._note("fsync", request, inode, since=self._journalist.count, only_data=only)
        self._wrote(inode, done)
        return (fuse.WRITTEN.pack(done, 0),)

    def _write_behind(self, request: Request, inode: Inode, fd: int, data: memoryview, offset: int) -> None:
        """Note and answer it, and carry it out."""
        with self._behind:
            with inode.lock:
                inode.behind = True
                kept = self._archivist.reserve(len(data)) if self._archivist is not None else None
                with self._turn:
                    note = self._note(
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
            note = self._note("write", request, inode, offset=offset, size=len(data), data=kept, done=False)
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

    def settle(self) -> None:
        """Wait until all that was answered lies beneath, and is in the journal."""
        for _ in range(_BEHIND):
            self._behind.acquire()
        self._behind.release(_BEHIND)
        if self._archivist is not None:
            self._archivist.finish()

    def _wrote(self, inode: Inode, size: int) -> None:
        if self._troubles.any:
            self._troubles.wrote(inode.path, size)

    def _is_ample(self) -> bool:
        found = os.fstatvfs(self._root)
        return found.f_bavail * found.f_frsize >= _AMPLE

    def fsync(self, request: Request) -> Answer:
        return self._force("fsync", request)

    def fsyncdir(self, request: Request) -> Answer:
        return self._force("fsyncdir", request)

    def fallocate(self, request: Request) -> Answer:
        fd, offset, length, mode, _ = fuse.FALLOCATE.unpack_from(request.body)
        inode = self._handles[fd].inode
        self._meet("write", request, inode, size=length)
        if mode:  # to punch a hole, and the like
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        with inode.lock, self._turn:
            before = os.fstat(fd).st_size
            os.posix_fallocate(fd, offset, length)
            if offset + length > before:
                self._note("truncate", request, inode, size=offset + length)
        return ()

    def lseek(self, request: Request) -> Answer:
        fd, offset, whence, _ = fuse.LSEEK.unpack_from(request.body)
        _catch_up(self._handles[fd].inode)
        return (fuse.SOUGHT.pack(os.lseek(fd, offset, whence)),)

    def release(self, request: Request) -> Answer:
        fd, *_ = fuse.RELEASE.unpack_from(request.body)
        handle = self._handles[fd]
        with handle.inode.lock, self._turn:
            del self._handles[fd]
            self._inodes.closed(handle.inode, fd)
            os.close(fd)
        return ()

    # Directories.

    def opendir(self, request: Request) -> Answer:
        inode = self._inodes[request.node]
        self._meet("open", request, inode)
        with self._turn:
            fd = os.open(inode.path or ".", os.O_RDONLY | os.O_DIRECTORY | _ALWAYS, dir_fd=self._root)
            return self._opened(fd, inode, 0)

    def readdir(self, request: Request) -> Answer:
        fd, offset, size, *_ = fuse.TRANSFER.unpack_from(request.body)
        handle = self._handles[fd]
        if offset == 0:
            self._meet("list", request, handle.inode)
            handle.listed = self._list(request, handle)
        taken = []
        for packed in handle.listed[offset:]:
            size -= len(packed)
            if size < 0:
                break
            taken.append(packed)
        return (b"".join(taken),)

    def releasedir(self, request: Request) -> Answer:
        return self.release(request)

    # What they share.

    def _make(
        self, kind: Kind, request: Request, at: int, do: Callable[[str], None], *, noted: bool = True, **told: Any
    ) -> Answer:
        parent, name = self._inodes[request.node], request.names(at)[0]
        self._meet(kind, request, (parent, name))
        with self._turn:
            path = below(parent, name)
            self._naming(path, lambda: do(path))
            self._give(request, path)
            inode, found = self._inodes.find(parent, name, new=True)
            inode.known += 1
            if noted:
                self._note(kind, request, inode, **told)
            self._named(path, request)
            return (fuse.entry(inode.number + 1, found),)

    def _naming(self, path: str, do: Callable[[], None]) -> None:
        """Do what makes a name; who is told that there is one has learnt it."""
        try:
            do()
        except FileExistsError:
            self._troubles.told(path)
            raise

    def _remove(self, kind: Kind, request: Request, do: Callable[..., None]) -> Answer:
        parent, (name,) = self._inodes[request.node], request.names()
        self._meet(kind, request, (parent, name))
        with self._turn:
            inode, path = self._inodes.find(parent, name)[0], below(parent, name)
            do(path, dir_fd=self._root)
            self._inodes.gone(parent, name)
            self._note(kind, request, inode, path=path)
            self._troubles.told(path)
        return ()

    def _rename(self, request: Request, target: int, flags: int, names: list[str]) -> Answer:
        if flags & ~(_NOREPLACE | _EXCHANGE):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        old, new = (self._inodes[request.node], names[0]), (self._inodes[target], names[1])
        self._meet("rename", request, old, new)
        with self._turn:
            path, to = below(*old), below(*new)
            inode, _ = self._inodes.find(*old)
            try:
                replaced, _ = self._inodes.find(*new)
            except FileNotFoundError:
                replaced = None
            call("renameat2", self._root, os.fsencode(path), self._root, os.fsencode(to), flags)
            if replaced is inode:  # two names of one file: both stay
                return ()
            told: dict[str, Any] = {"to": to}
            if replaced is not None:
                told["replaced"] = replaced.number
            if flags & _EXCHANGE:
                self._inodes.swapped(old, new)
                told["exchange"] = True
            else:
                self._inodes.moved(inode, old, new)
            self._note("rename", request, inode, path=path, **told)
            if replaced is None:
                self._named(to, request)
        return ()

    def _open(self, request: Request, inode: Inode, flags: int) -> Answer:
        if flags & os.O_TRUNC:
            self._meet("truncate", request, inode)
        with inode.lock, self._turn:
            fd = self._reach(inode, flags & ~_NOT_PASSED)
            if flags & os.O_TRUNC:
                self._note("truncate", request, inode, size=0)
            return self._opened(fd, inode, flags)

    def _opened(self, fd: int, inode: Inode, flags: int) -> Answer:
        self._handles[fd] = Handle(fd, inode)
        inode.handles.add(fd)
        only_written = flags & os.O_ACCMODE == os.O_WRONLY
        direct = fuse.DIRECT_IO if only_written and self._connection.maps_direct else 0
        return (fuse.OPENED.pack(fd, direct, 0),)

    def _reach(self, inode: Inode, flags: int) -> int:
        """Open it, by a name or, if it has none any more, by who has it open."""
        if not inode.names and inode.handles:
            return os.open(f"/proc/self/fd/{next(iter(inode.handles))}", flags | os.O_CLOEXEC)
        return os.open(inode.path or ".", flags | _ALWAYS, dir_fd=self._root)

    def _truncate(self, request: Request, inode: Inode, size: int, handle: int | None) -> None:
        fd = handle if handle is not None else self._reach(inode, os.O_WRONLY)
        try:
            os.ftruncate(fd, size)
        finally:
            if handle is None:
                os.close(fd)
        self._note("truncate", request, inode, size=size)

    def _change(self, request: Request, inode: Inode, told: tuple[int, ...]) -> None:
        valid, atime, mtime, atimensec, mtimensec, mode, uid, gid = (
            told[at] for at in (0, 5, 6, 8, 9, 11, 13, 14)
        )
        at: Any = {"dir_fd": self._root, "follow_symlinks": False}
        where: Any = inode.path or "."
        if not inode.names and inode.handles:
            where, at = next(iter(inode.handles)), {}
        if valid & (fuse.UID | fuse.GID):
            os.chown(where, uid if valid & fuse.UID else -1, gid if valid & fuse.GID else -1, **at)
        if valid & fuse.MODE:
            os.chmod(where, stat.S_IMODE(mode), dir_fd=self._root if at else None)
            self._note("chmod", request, inode, mode=stat.S_IMODE(mode))
        if valid & (fuse.ATIME | fuse.MTIME):
            found, now = self._inodes.stat(inode), time.time_ns()
            a = now if valid & fuse.ATIME_NOW else atime * 10**9 + atimensec
            m = now if valid & fuse.MTIME_NOW else mtime * 10**9 + mtimensec
            a, m = a if valid & fuse.ATIME else found.st_atime_ns, m if valid & fuse.MTIME else found.st_mtime_ns
            os.utime(where, ns=(a, m), **at)

    def _force(self, kind: Kind, request: Request) -> Answer:
        fd, flags, _ = fuse.FSYNC.unpack_from(request.body)
        inode, only_data = self._handles[fd].inode, bool(flags & fuse.FDATASYNC)
        self._meet(kind, request, inode)
        with inode.lock:  # what is being written is not forced
            since = self._journalist.count
        with self._archivist.undisturbed() if self._archivist is not None else nullcontext():
            (os.fdatasync if only_data else os.fsync)(fd)
        with self._turn:
            self._note(kind, request, inode, since=since, only_data=only_data)
        return ()

    def _list(self, request: Request, handle: Handle) -> list[bytes]:
        with self._turn, os.scandir(handle.fd) as found:
            entries = list(found)
        if self._troubles.any_late:
            path, session = handle.inode.path, self._callers.of(request.thread).session
            before = f"{path}/" if path else ""
            entries = [each for each in entries if not self._troubles.hides("list", before + each.name, session)]
        own = os.fstat(handle.fd).st_ino
        told = [(own, ".", stat.S_IFDIR), (own, "..", stat.S_IFDIR)]
        told += [(each.inode(), each.name, _type(each)) for each in entries]
        return [fuse.dirent(ino, at, name, kind >> 12) for at, (ino, name, kind) in enumerate(told, start=1)]

    def _give(self, request: Request, path: str) -> None:
        """What root has made for another user is the other's."""
        if self._own[0] == 0 and (request.uid, request.gid) != self._own:
            os.chown(path, request.uid, request.gid, dir_fd=self._root, follow_symlinks=False)

    def _named(self, path: str, request: Request) -> None:
        if self._troubles.any_late:
            self._troubles.named(path, self._callers.of(request.thread).session)

    def _meet(self, kind: str, request: Request, *files: Inode | tuple[Inode, str], size: int = 0) -> None:
        if self.sights is None and not self._troubles.any:
            return
        with self._turn:
            paths = tuple(below(*file) if isinstance(file, tuple) else file.path for file in files)
            if self.sights is not None:
                self.sights.note(request.op, paths)
        if self._troubles.any:
            self._troubles.meet(kind, paths, unique=request.unique, thread=request.thread, size=size)

    def _note(self, kind: Kind, request: Request, inode: Inode, *, path: str | None = None, **told: Any) -> Note:
        caller = self._callers.of(request.thread)
        return self._journalist.note(kind, inode.path if path is None else path, inode.number, caller, **told)


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


def _type(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    for kind, says in _KINDS_OF_FILES:
        if getattr(entry, says)(follow_symlinks=False):
            return kind
    return 0


#: The method for each request; what is not here, the kernel is told once that it does not exist.
#: Attributes beyond the ordinary are among that, for it would ask for one before every write, and flushes: with no
#: cache of writes there is nothing to flush.
METHODS = {op: op.name.lower() for op in Op if op not in (Op.INIT, Op.INTERRUPT, Op.DESTROY)}
