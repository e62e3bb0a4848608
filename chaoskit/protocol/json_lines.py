"""JSON lines: one JSON value a line, in files and over sockets. Standard library only; ranks import it.

A writer appends each line by a single `write`, so a process that is killed leaves at worst its last line cut short.
The reader leaves such a line out. A damaged line elsewhere (bad JSON, bad UTF-8) is reported and costs no other
line.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chaoskit.protocol.descriptors import OwnDescriptor
from chaoskit.protocol.stored_files import LONGEST_RECORD, read_stored


def encode(value: Any) -> bytes:
    """The line of a value, with its end. Raises TypeError or ValueError for what is not JSON."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class JsonLine(NamedTuple):
    """One line of a file: its number from 1, its value, and the error if it is damaged.

    `ended` is False for a last line that is complete JSON but has no line end.
    """

    number: int
    value: Any
    error: Exception | None = None
    ended: bool = True


def decode(content: bytes) -> Iterator[JsonLine]:
    """The lines of a file, in order. Empty lines are left out, and so is a last line that was cut short."""
    try:
        # Text is parsed faster than bytes. If some of it is not UTF-8, only the lines that it is in are damaged.
        lines: Sequence[str | bytes] = content.decode().split("\n")
    except UnicodeDecodeError:
        lines = content.split(b"\n")
    last = len(lines)
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            value = json.loads(line if isinstance(line, str) else line.decode())
            yield JsonLine(number, value, None, number < last)
        except (ValueError, RecursionError) as error:
            if number < last:
                yield JsonLine(number, None, error)


def read(path: Path) -> Iterator[JsonLine]:
    """The lines of the file. Raises OSError if it cannot be read."""
    return decode(read_stored(path, longest=LONGEST_RECORD))


class LineWriter:
    """Appends lines to one file, from one process: after a fork, the child opens its own.

    If the file ends in a line that was cut short, the first new line begins on a line of its own. `opened` is how often
    the file was opened: again, where the process has closed descriptors that it did not know.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = os.path.abspath(path)
        self.opened = 0
        self._file = self._open()

    def _open(self) -> OwnDescriptor | None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        size = os.fstat(fd).st_size
        self._torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        self.opened += 1
        return OwnDescriptor(fd)

    def write(self, value: Any) -> None:
        """Append one line. Raises OSError if it cannot be written whole, TypeError or ValueError if it is not JSON."""
        line = encode(value)
        if self._file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if not self._file.is_ours:
            self._file = self._open()
            assert self._file is not None
        torn, self._torn = self._torn, False
        append(self._file.fd, b"\n" + line if torn else line)

    def close(self) -> None:
        """Close the file; later writes raise OSError."""
        if self._file is not None:
            self._file.close()
            self._file = None


def append(fd: int, lines: bytes) -> None:
    """Write encoded lines by a single call. Raises OSError if the disk took only a part of them."""
    if os.write(fd, lines) != len(lines):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class LineBuffer:
    """Puts the lines of a stream together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete with these bytes, without their ends; the beginning of the next one is kept."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        return lines
