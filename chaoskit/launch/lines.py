"""`Lines`: JSON objects, one a line, over a socket, as a harness speaks with keepers and warm parents."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any


class Lines:
    """One end of it. What fails raises OSError: TimeoutError where nothing came in time, ConnectionError where the
    other end is gone."""

    def __init__(self, line: socket.socket) -> None:
        self.socket = line
        self._heard = b""

    def say(self, message: Mapping[str, Any], *, limit: float, fds: Sequence[int] = ()) -> None:
        """Send a message, and these files along with it, within `limit` seconds."""
        data = json.dumps(message).encode() + b"\n"
        self.socket.settimeout(limit)
        sent = socket.send_fds(self.socket, [data], fds) if fds else 0
        self.socket.sendall(data[sent:])

    def hear(self, limit: float) -> dict[str, Any]:
        """The next message, if it comes within `limit` seconds."""
        self.socket.settimeout(limit)
        while b"\n" not in self._heard:
            try:
                data = self.socket.recv(1 << 16)
            except BlockingIOError as error:  # what a limit of 0 makes of a timeout
                raise TimeoutError from error
            if not data:
                raise ConnectionError("the other end is gone")
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message
