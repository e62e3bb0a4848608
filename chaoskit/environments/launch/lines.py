"""`LineChannel`: JSON objects, one a line, over a socket, as a harness speaks with keepers and warm parents."""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from chaoskit.protocol.json_lines import LineBuffer, encode


class LineChannel:
    """One end of the channel. Failures raise OSError: TimeoutError if nothing came in time, ConnectionError if the
    other end has closed.
    """

    def __init__(self, line: socket.socket) -> None:
        self.socket = line
        self._buffer = LineBuffer()
        self._lines: deque[bytes] = deque()

    def say(self, message: Mapping[str, Any], *, limit: float, fds: Sequence[int] = ()) -> None:
        """Send a message, and these files along with it, within `limit` seconds."""
        data = encode(message)
        self.socket.settimeout(limit)
        sent = socket.send_fds(self.socket, [data], fds) if fds else 0
        self.socket.sendall(data[sent:])

    def hear(self, limit: float) -> dict[str, Any]:
        """The next message, if it comes within `limit` seconds."""
        self.socket.settimeout(limit)
        while not self._lines:
            try:
                data = self.socket.recv(1 << 16)
            except BlockingIOError as error:  # what a limit of 0 makes of a timeout
                raise TimeoutError from error
            if not data:
                raise ConnectionError("the other end is gone")
            self._lines += self._buffer.feed(data)
        message: dict[str, Any] = json.loads(self._lines.popleft())
        return message
