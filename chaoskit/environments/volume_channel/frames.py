"""A stream of frames in a file on a volume that machines share: one process writes it, one on another machine reads it.

A file system of a network may show late, and in pieces out of order, what another machine writes. So the writer closes
the file after each piece, which hands it on, and the reader opens it anew for each look. A frame counts once its
checksum is right: before, it may be half a frame, or have zeros where a piece is yet to come. A look never takes
anything else for a frame, and the next look begins where the last whole frame has ended.

Standard library only: it runs in the agent of a node.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

#: Bytes of a frame beside its head.
LONGEST = 1 << 16
#: The door, the number and the length; then the checksum of these and of the data.
_ABOUT, _SUM = struct.Struct(">BII"), struct.Struct(">I")
#: Bytes of one look: several frames.
_LOOK = 1 << 20


class ChannelFrame(NamedTuple):
    """What one side has said on connection `number`, to a door whose number is from 1 to 255. No data is its end."""

    door: int
    number: int
    data: bytes = b""


def pack(frame: ChannelFrame) -> bytes:
    """The bytes of a frame."""
    about = _ABOUT.pack(frame.door, frame.number, len(frame.data))
    return about + _SUM.pack(zlib.crc32(frame.data, zlib.crc32(about))) + frame.data


def unpack(content: bytes) -> tuple[list[ChannelFrame], int]:
    """The frames at the beginning, up to the first that is not whole; and the number of their bytes."""
    found, at = [], 0
    while (begin := at + _ABOUT.size + _SUM.size) <= len(content):
        about = content[at : at + _ABOUT.size]
        door, number, size = _ABOUT.unpack(about)
        data = content[begin : begin + size]
        (told,) = _SUM.unpack(content[at + _ABOUT.size : begin])
        if door == 0 or len(data) < size or zlib.crc32(data, zlib.crc32(about)) != told:
            break
        found.append(ChannelFrame(door, number, data))
        at = begin + size
    return found, at


def make_file(path: Path) -> None:
    """Make an empty file, which was not there, for the owner of its directory; for everybody if the directory is for
    everybody. Raises OSError."""
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        about = os.stat(path.parent)
        os.fchmod(made, about.st_mode & 0o666)
        if os.geteuid() == 0:
            os.fchown(made, about.st_uid, -1)
    finally:
        os.close(made)


class FrameWriter:
    """Writes the frames of one side to a file that is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._left = bytearray()

    def add(self, frame: ChannelFrame) -> None:
        """Have `hand_on` write this frame."""
        self._left += pack(frame)

    def hand_on(self) -> None:
        """Write what was added. Raises OSError; then the next call writes the same bytes to the same place."""
        if not self._left:
            return
        content = bytes(self._left)
        file = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            done = 0
            while done < len(content):
                done += os.pwrite(file, content[done:], self._at + done)
        finally:
            os.close(file)  # a file system of a network may tell only here that it has not stored them
        self._at += len(content)
        del self._left[: len(content)]


class FrameReader:
    """Reads the frames of the other side."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def frames(self) -> list[ChannelFrame]:
        """Those that have come since the last call, at most about a megabyte. Raises OSError."""
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.pread(file, _LOOK, self._at)
        finally:
            os.close(file)
        found, used = unpack(content)
        self._at += used
        return found
