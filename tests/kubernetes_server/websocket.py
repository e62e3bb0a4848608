"""WebSockets, as far as exec and port-forward need them: the handshake, and whole messages in both directions."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455


def accept_key(key: str) -> str:
    """What proves to a client that its handshake was understood."""
    return base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()


class WebSocket:
    """The server's end of one connection, after the handshake. Several threads may send."""

    def __init__(self, connection: socket.socket, reader: BinaryIO, protocol: str) -> None:
        self.protocol = protocol
        self._connection = connection
        self._reader = reader
        self._sending = threading.Lock()

    def messages(self) -> Iterator[bytes]:
        """What the client sends, until it closes or goes."""
        parts = b""
        while frame := self._frame():
            final, opcode, payload = frame
            if opcode == CLOSE:
                return
            if opcode == PING:
                self._send(PONG, payload)
            elif opcode in (CONTINUED, TEXT, BINARY):
                parts += payload
                if final:
                    yield parts
                    parts = b""

    def send(self, message: bytes) -> None:
        """Send one message; nothing happens where nobody listens any more."""
        self._send(BINARY, message)

    def close(self) -> None:
        """Say that nothing more comes, and end the connection."""
        self._send(CLOSE, struct.pack("!H", 1000))
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _send(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, size)
        elif size < 2**16:
            head = struct.pack("!BBH", 0x80 | opcode, 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
        with self._sending, contextlib.suppress(OSError):
            self._connection.sendall(head + payload)

    def _frame(self) -> tuple[bool, int, bytes] | None:
        try:
            first, second = self._read(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self._read(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._read(8))
            mask = self._read(4) if second & 0x80 else bytes(4)
            payload = self._read(size)
        except (OSError, EOFError, ValueError):
            return None
        repeated = (mask * (size // 4 + 1))[:size]
        masked = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
        return bool(first & 0x80), first & 0x0F, masked.to_bytes(size, "big")

    def _read(self, size: int) -> bytes:
        found = self._reader.read(size)
        if len(found) < size:
            raise EOFError
        return found
