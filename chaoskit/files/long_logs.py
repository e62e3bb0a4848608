"""Long logs: the beginning and the end are kept, and the middle is given back to the disk.

While somebody writes to a log, its middle becomes a hole: the size stays, so that writers and readers keep their
places. Afterwards a line that says how much is left out takes the place of the middle.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

#: Bytes that are kept of a log: this share of them from its beginning, the rest from its end.
LIMIT = 32 << 20
#: The same of a log from which nothing more is to be learnt: its run passed.
OF_A_PASS = 256 << 10
_BEGINNING = 1 / 4
#: A line that is longer than this is cut, too.
_LONGEST_LINE = 64 << 10
_BLOCK = 4096
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def logs_below(directory: Path) -> Iterator[Path]:
    """The files that end in `.log` below a directory; no link is followed."""
    for place, _, names in os.walk(directory):
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".log"))


def free_middle(path: Path, *, limit: int = LIMIT) -> None:
    """Give the middle of a log that is longer than that back to the disk, while others may write to it. Nothing happens
    where the file system cannot do that, or the file is not ours to change."""
    with suppress(OSError), _opened(path) as fd:
        about = os.fstat(fd)
        if about.st_size <= limit or about.st_blocks * 512 <= limit + _BLOCK * 4:
            return
        start = _up(int(limit * _BEGINNING))
        end = (about.st_size - (limit - start)) // _BLOCK * _BLOCK
        if end > start:
            _fallocate()(fd, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_long(start), ctypes.c_long(end - start))


def cut_middle(path: Path, *, limit: int = LIMIT) -> int:
    """Leave the middle of a log out that is longer than that, for good; nobody may write to it any more. Returns how
    many bytes are left out. Raises OSError if the file cannot be changed."""
    with _opened(path) as fd:
        size = os.fstat(fd).st_size
        if size <= limit:
            return 0
        beginning = int(limit * _BEGINNING)
        head = os.pread(fd, beginning, 0)
        cut = head.rfind(b"\n", max(0, len(head) - _LONGEST_LINE)) + 1
        head = head[:cut] if cut else head
        tail = os.pread(fd, limit - beginning, size - (limit - beginning))
        tail = tail[tail.find(b"\n", 0, _LONGEST_LINE) + 1 :]
        left_out = size - len(head) - len(tail)
        text = f"[chaoskit: {left_out:,} bytes of this log are left out here]\n".encode()
        # In its place: a full disk has no room for a second one.
        _write(fd, (text if head.endswith(b"\n") or not head else b"\n" + text) + tail, len(head))
        return left_out


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "is no file", str(path))
        yield fd
    finally:
        os.close(fd)


def _write(fd: int, content: bytes, at: int) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(fd, content[done:], at + done)
    os.ftruncate(fd, at + done)


def _up(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


@cache
def _fallocate() -> ctypes._NamedFuncPointer:
    return ctypes.CDLL(None).fallocate
