"""`Carrier`: carries connections between sockets of this machine and two files on the volume. Both sides have one.

The side of a node takes connections, and the side of chaoskit makes the same ones to its own doors. Whoever speaks over
them notices nothing of the files. Standard library only: it runs in the agent of a node.
"""

from __future__ import annotations

import itertools
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chaoskit.environments.volume_channel.frames import LONGEST, ChannelFrame, FrameReader, FrameWriter

#: The numbers of the doors: that of the agents and keepers, and that of the ranks.
AGENTS, GATE = 1, 2
DOORS = (AGENTS, GATE)
#: Seconds without a sign of the other side after which it is gone, as for TCP (see `notice_death`).
GONE = 45.0
#: Seconds between two signs of life, each a frame that belongs to no connection.
_BEAT = 0.5
_SIGN = ChannelFrame(AGENTS, 0)
#: Seconds between two looks at the files, right after something has come and at most.
_SOON, _RARELY = 0.001, 0.05


def files(directory: Path, stem: str) -> tuple[Path, Path]:
    """The file that the node writes, and the one that chaoskit writes."""
    return directory / f"{stem}.up", directory / f"{stem}.down"


class Pace:
    """The seconds until the next look at the files: few after something has come, then more and more."""

    def __init__(self) -> None:
        self.wait = _SOON

    def went(self, *, moved: bool) -> None:
        """Count one look, in which something has come or not."""
        self.wait = _SOON if moved else min(2 * self.wait, _RARELY)


class _Line:
    """One connection. `waiting` is what its socket has yet to take; it `is_over` once the other side has ended it."""

    def __init__(self, line: socket.socket, door: int, number: int) -> None:
        self.socket, self.door, self.number = line, door, number
        self.waiting = bytearray()
        self.is_over = False


class Carrier:
    """Carries what comes in at sockets to the file `own`, and from the file `other` to sockets. Its owner waits on
    `selector`, calls the `data` of each key that is ready, and then `exchange`. `dial` makes a connection to a door;
    without it, connections are only taken."""

    def __init__(
        self,
        own: Path,
        other: Path,
        selector: selectors.BaseSelector,
        *,
        dial: Callable[[int], socket.socket] | None = None,
    ) -> None:
        self._writer, self._reader = FrameWriter(own), FrameReader(other)
        self._selector, self._dial = selector, dial
        self._numbers = itertools.count(1)
        self._lines: dict[int, _Line] = {}
        #: The numbers of those that have ended: what the other side still says there is for nobody.
        self._ended: set[int] = set()
        self._moved = False
        self._beat = self._heard = time.monotonic()

    @property
    def silent(self) -> float:
        """Seconds since the last sign of the other side."""
        return time.monotonic() - self._heard

    def take(self, line: socket.socket, door: int) -> None:
        """Carry a connection that was made here."""
        self._add(_Line(line, door, next(self._numbers)))

    def exchange(self) -> bool:
        """Carry what has come; whether anything has. An error of the files is no end: what they have yet to take or to
        give is tried again, and the other side falls silent meanwhile."""
        frames = []
        with suppress(OSError):
            frames = self._reader.frames()
        now = time.monotonic()
        if frames:
            self._heard = now
        for frame in frames:
            if frame.number:
                self._moved = True
                self._deliver(frame)
        if now >= self._beat:
            self._beat = now + _BEAT
            self._writer.add(_SIGN)
        with suppress(OSError):
            self._writer.hand_on()
        moved, self._moved = self._moved, False
        return moved

    def close(self) -> None:
        """End every connection on this side."""
        for line in list(self._lines.values()):
            self._drop(line)

    def _add(self, line: _Line) -> None:
        line.socket.setblocking(False)
        line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines[line.number] = line
        self._selector.register(line.socket, selectors.EVENT_READ, lambda: self._ready(line))

    def _deliver(self, frame: ChannelFrame) -> None:
        line = self._lines.get(frame.number)
        if line is None:
            if self._dial is None or frame.number in self._ended or not frame.data:
                return
            try:
                line = _Line(self._dial(frame.door), frame.door, frame.number)
            except OSError:  # the door is closed
                self._ended.add(frame.number)
                self._writer.add(ChannelFrame(frame.door, frame.number))
                return
            self._add(line)
        line.waiting += frame.data
        line.is_over |= not frame.data
        self._send(line)

    def _ready(self, line: _Line) -> None:
        self._moved = True
        if line.waiting:
            self._send(line)
        if line.socket.fileno() < 0:
            return
        try:
            data = line.socket.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not line.is_over:
            self._writer.add(ChannelFrame(line.door, line.number, data))
        if not data:
            self._drop(line)

    def _send(self, line: _Line) -> None:
        try:
            del line.waiting[: line.socket.send(line.waiting) if line.waiting else 0]
        except BlockingIOError:
            pass
        except OSError:
            line.waiting.clear()  # its end is read
        if line.is_over and not line.waiting:
            self._drop(line)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.waiting else 0)
        key = self._selector.get_key(line.socket)
        if key.events != wanted:
            self._selector.modify(line.socket, wanted, key.data)

    def _drop(self, line: _Line) -> None:
        del self._lines[line.number]
        self._ended.add(line.number)
        self._selector.unregister(line.socket)
        line.socket.close()
