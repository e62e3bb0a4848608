"""The FUSE protocol of the kernel over /dev/fuse: mounting, and the layout of requests and answers.

It uses the protocol directly, without a library: nothing needs to be installed, no setuid helper runs, and requests
show who asks. Numbers are in the machine's byte order (see linux/fuse.h). Standard library only.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum

from chaoskit.environments.launch.host import call

DEVICE = "/dev/fuse"
#: The most that one request reads or writes.
MOST = 1 << 20
_PAGE = mmap.PAGESIZE
_BUFFER = MOST + 2 * _PAGE
_TOGETHER = 8
_MADV_POPULATE_WRITE = 23
_VERSION, _MINOR = 7, 39


class Op(IntEnum):
    """The kinds of requests."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    FALLOCATE = 43
    RENAME2 = 45
    LSEEK = 46


#: Nobody waits for an answer to these.
UNANSWERED = frozenset((Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT, Op.DESTROY))

_IN = struct.Struct("=IIQQIIIHH")
_OUT = struct.Struct("=IiQ")
_INIT_IN = struct.Struct("=5I")
_INIT_OUT = struct.Struct("=4I2H2I2H8I")
_ENTRY = struct.Struct("=QQQQII")
_ATTR_OUT = struct.Struct("=QII")
_ATTR = struct.Struct("=6Q10I")
_STATFS = struct.Struct("=5Q4I24x")
_DIRENT = struct.Struct("=QQII")

#: What follows the header of a request, by its kind.
SETATTR = struct.Struct("=IIQQQqqqIIIIIIII")
MKNOD = struct.Struct("=4I")
MKDIR = struct.Struct("=II")
RENAME = struct.Struct("=Q")
RENAME2 = struct.Struct("=QII")
LINK = struct.Struct("=Q")
OPEN = struct.Struct("=II")
CREATE = struct.Struct("=4I")
TRANSFER = struct.Struct("=QQIIQII")  # READ and WRITE
RELEASE = struct.Struct("=QIIQ")
FSYNC = struct.Struct("=QII")
FALLOCATE = struct.Struct("=QQQII")
LSEEK = struct.Struct("=QQII")
FORGET = struct.Struct("=Q")
BATCH_FORGET = struct.Struct("=II")
FORGET_ONE = struct.Struct("=QQ")
INTERRUPT = struct.Struct("=Q")

#: Answers to OPEN, WRITE and LSEEK.
OPENED = struct.Struct("=QII")
WRITTEN = struct.Struct("=II")
SOUGHT = struct.Struct("=Q")

#: What SETATTR is to change.
MODE, UID, GID, SIZE, ATIME, MTIME, FH, ATIME_NOW, MTIME_NOW = (1 << bit for bit in range(9))
#: Of an answer to OPEN: what is read and written passes by the page cache of the mount.
DIRECT_IO = 1
FDATASYNC = 1

# What we ask of the kernel. No write-back cache: each write comes as it is made. No locks: it keeps them itself.
_ASYNC_READ, _ATOMIC_O_TRUNC, _BIG_WRITES, _AUTO_INVAL_DATA = 1 << 0, 1 << 3, 1 << 5, 1 << 12
_PARALLEL_DIROPS, _MAX_PAGES, _EXTENDED, _DIRECT_IO_ALLOW_MMAP = 1 << 18, 1 << 22, 1 << 30, 1 << 36
_WISHES = (
    _ASYNC_READ
    | _ATOMIC_O_TRUNC
    | _BIG_WRITES
    | _AUTO_INVAL_DATA
    | _PARALLEL_DIROPS
    | _MAX_PAGES
    | _DIRECT_IO_ALLOW_MMAP
)


@dataclass(slots=True)
class Request:
    """One request. `node`: the inode that it is about. `thread`: the id of the requesting thread (0: the kernel).
    `body`: what follows the header. `space`: room for `MOST` bytes of an answer; it overlaps the body, in `buffer`.
    """

    op: int
    unique: int
    node: int
    uid: int
    gid: int
    thread: int
    body: memoryview
    space: memoryview
    buffer: Buffer

    def names(self, at: int = 0) -> list[str]:
        """The names in the body, from there on."""
        return [os.fsdecode(name) for name in bytes(self.body[at:]).split(b"\0")[:-1]]


@dataclass(eq=False)
class Buffer:
    """Memory in which a thread receives requests. Data to be written begins at a page, from where it is copied
    fastest.
    """

    whole: memoryview = field(default_factory=lambda: memoryview(mmap.mmap(-1, _BUFFER)))

    @property
    def received(self) -> memoryview:
        """From the header on."""
        return self.whole[_PAGE - _IN.size - TRANSFER.size :]

    @property
    def space(self) -> memoryview:
        """What begins at a page."""
        return self.whole[_PAGE:]


class Buffers:
    """A pool of buffers: used memory is far faster than fresh memory."""

    def __init__(self) -> None:
        self._free: list[Buffer] = []
        self._turn = threading.Lock()

    def provide(self, count: int) -> None:
        """Have so many at hand, and their memory with them."""
        for _ in range(0, count, _TOGETHER):
            made = mmap.mmap(-1, _TOGETHER * _BUFFER)
            made.madvise(mmap.MADV_HUGEPAGE)
            with suppress(OSError):  # Linux 5.14 and newer
                made.madvise(_MADV_POPULATE_WRITE)
            whole = memoryview(made)
            with self._turn:
                self._free += [Buffer(whole[at * _BUFFER :][:_BUFFER]) for at in range(_TOGETHER)]

    def take(self) -> Buffer:
        """A buffer that nobody has."""
        while True:
            with self._turn:
                if self._free:
                    return self._free.pop()
            self.provide(1)

    def give(self, buffer: Buffer) -> None:
        """Whoever took it is done with it."""
        with self._turn:
            self._free.append(buffer)


class Connection:
    """The connection to the kernel; `fd` is /dev/fuse, opened in the user namespace of the mount."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.maps_direct = False

    def begin(self) -> None:
        """Negotiate features with the kernel: its first request."""
        request = self.receive(Buffer())
        if request is None or request.op != Op.INIT:
            raise OSError(errno.EPROTO, f"{DEVICE}: the kernel does not begin as expected")
        _, minor, readahead, offered, more = (
            *_INIT_IN.unpack_from(bytes(request.body).ljust(_INIT_IN.size, b"\0")),
        )
        offered |= more << 32 if offered & _EXTENDED else 0
        taken = (offered & _WISHES) | (offered & _EXTENDED)
        self.maps_direct = bool(taken & _DIRECT_IO_ALLOW_MMAP)
        pages = MOST // _PAGE
        agreed = (
            _VERSION,
            min(minor, _MINOR),
            readahead,
            taken & 0xFFFFFFFF,
            64,
            48,
            MOST,
            1,
            pages,
            0,
            taken >> 32,
        )
        self.answer(request, _INIT_OUT.pack(*agreed, *[0] * 7))

    def receive(self, buffer: Buffer) -> Request | None:
        """The next request; None once the file system is unmounted."""
        received = buffer.received
        while True:
            try:
                size = os.readv(self._fd, [received])
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return None
                if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):  # who asked has thought better of it
                    continue
                raise
            _, op, unique, node, uid, gid, thread, _, _ = _IN.unpack_from(received)
            return Request(op, unique, node, uid, gid, thread, received[_IN.size : size], buffer.space, buffer)

    def answer(self, request: Request, *data: bytes | memoryview) -> None:
        """Answer that the request was carried out."""
        with suppress(FileNotFoundError):  # nobody waits any more
            os.writev(self._fd, [_OUT.pack(_OUT.size + sum(map(len, data)), 0, request.unique), *data])

    def refuse(self, request: Request, number: int) -> None:
        """Answer with this errno."""
        with suppress(FileNotFoundError):
            os.write(self._fd, _OUT.pack(_OUT.size, -number, request.unique))


def mount(fd: int, target: str, *, source: str, for_all: bool) -> None:
    """Mount the file system of this connection over a directory; `for_all` lets other users see it. Raises OSError."""
    told = f"fd={fd},rootmode={stat.S_IFDIR:o},user_id={os.geteuid()},group_id={os.getegid()},default_permissions"
    flags = 0x2 | 0x4  # nosuid, nodev
    options = told + (",allow_other" if for_all else "")
    call("mount", source.encode(), os.fsencode(target), b"fuse.chaoskit", flags, options.encode())


def attributes(found: os.stat_result) -> bytes:
    """The fields of a stat in the kernel's layout."""
    times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
    return _ATTR.pack(
        found.st_ino, found.st_size, found.st_blocks,
        *(ns // 10**9 & (1 << 64) - 1 for ns in times), *(ns % 10**9 for ns in times),
        found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_rdev & 0xFFFFFFFF, found.st_blksize, 0,
    )  # fmt: skip


def attributes_answer(found: os.stat_result) -> bytes:
    """The answer to GETATTR and SETATTR. The kernel must not cache it: the harness may change the source directory."""
    return _ATTR_OUT.pack(0, 0, 0) + attributes(found)


def entry(node: int, found: os.stat_result) -> bytes:
    """The answer that names a file. The kernel must not cache it: a name may vanish, or become visible late."""
    return _ENTRY.pack(node, 0, 0, 0, 0, 0) + attributes(found)


def dirent(inode: int, offset: int, name: str, kind: int) -> bytes:
    """One entry of a directory; the next has that offset."""
    encoded = os.fsencode(name)
    packed = _DIRENT.pack(inode, offset, len(encoded), kind) + encoded
    return packed.ljust(-(-len(packed) // 8) * 8, b"\0")


def space_answer(found: os.statvfs_result, *, full: bool) -> bytes:
    """The answer to STATFS; nothing is free where it is `full`."""
    free, available = (0, 0) if full else (found.f_bfree, found.f_bavail)
    sizes = (found.f_blocks, free, available, found.f_files, found.f_ffree)
    return _STATFS.pack(*sizes, found.f_bsize, found.f_namemax, found.f_frsize, 0)
