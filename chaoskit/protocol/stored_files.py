"""`read_stored`, `read_value`: the content of a file that somebody else may have written, or damaged.

It opens regular files only, without waiting and without following a link in their place: a FIFO would wait for ever,
a device never ends, a link leads out of the store. Standard library only; ranks import it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

#: Longest document, and longest record of events, in bytes: what is longer was not written by chaoskit.
LONGEST, LONGEST_RECORD = 2**28, 2**32
_TYPES = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip


def open_stored(path: Path | str) -> BinaryIO:
    """Open a regular file to read it. Raises OSError, which says what else is in its place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "is a link, and chaoskit follows none in a store", str(path)) from error
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "is a socket, not a file", str(path)) from error
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise OSError(errno.EINVAL, f"is {_TYPES.get(stat.S_IFMT(mode), 'something else')}, not a file", str(path))
    return os.fdopen(fd, "rb")


def read_stored(path: Path | str, *, longest: int = LONGEST) -> bytes:
    """The content of a regular file. Raises OSError, also for one of more than `longest` bytes."""
    with open_stored(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > longest:
            raise OSError(errno.EFBIG, f"has {size} bytes, more than chaoskit writes ({longest})", str(path))
        return file.read(size)


def read_value(path: Path | str) -> Any:
    """The value of a regular file with JSON. Raises OSError; ValueError for anything else than JSON."""
    content = read_stored(path)
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


def why_unread(error: OSError) -> str:
    """What the error says of its file: 'is a FIFO, not a file', 'cannot be read (Permission denied)'."""
    said = str(error.strerror or error)
    return said if said.startswith(("is ", "has ")) else f"cannot be read ({said})"
