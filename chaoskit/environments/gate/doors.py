"""`Door`: where ranks reach the gate: a Unix socket in the run's directory, or a TCP port that asks for a token.

A rank finds the door by two environment variables: `CHAOSKIT_GATE`, which is `unix:PATH` or `tcp://HOST:PORT`, and, for
TCP, `CHAOSKIT_GATE_TOKEN`. The token never stands on a command line, which every user of a machine can read.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import struct
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

ADDRESS, TOKEN = "CHAOSKIT_GATE", "CHAOSKIT_GATE_TOKEN"
#: The name of the Unix socket in the run's directory.
NAME = "gate.sock"
_BACKLOG = 1024


class Door(Protocol):
    """A socket that ranks connect to. `token` is what each must show; "" where the kernel tells who they are."""

    @property
    def listener(self) -> socket.socket: ...

    def accept(self) -> socket.socket:
        """The next connection. Raises OSError if there is none, or it is one of a user who has no business here."""
        ...

    @property
    def token(self) -> str: ...

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables by which a rank finds the door."""
        ...

    def close(self) -> None:
        """Stop listening; may be called again."""
        ...


class UnixDoor:
    """The Unix socket `<run_dir>/<name>`, for ranks that see the run's directory. Only our own user and root may
    connect to it, and `others`, by their uids, where the nodes of the job have users of their own (None: whoever can
    reach it, because uids are mapped). Raises OSError."""

    token = ""

    def __init__(self, run_dir: Path, *, name: str = NAME, others: Collection[int] | None = ()) -> None:
        self._admitted = {0, os.geteuid(), *others} if others is not None else None
        self.environment = {ADDRESS: f"unix:{run_dir.absolute() / name}"}
        self._name = name
        self._directory = os.open(run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._unlink()
        # Through the directory's descriptor: an address holds 107 bytes, and a path may be longer.
        place = f"/proc/self/fd/{self._directory}/{name}"
        self.listener.bind(place)
        os.chmod(place, 0o666 if others is None or others else 0o600)
        self.listener.listen(_BACKLOG)

    def accept(self) -> socket.socket:
        """See `Door`."""
        line, _ = self.listener.accept()
        _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if self._admitted is not None and uid not in self._admitted:
            line.close()
            raise PermissionError(errno.EACCES, f"a process of another user (uid {uid}) knocked")
        return line

    def close(self) -> None:
        """See `Door`; the socket's name is removed."""
        if self._directory < 0:
            return
        self.listener.close()
        self._unlink()
        os.close(self._directory)
        self._directory = -1

    def _unlink(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._directory)


def notice_death(line: socket.socket) -> None:
    """Have the kernel end a connection of TCP whose other end has gone without a word, as with its machine."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 6)):
        line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 45_000)


class TcpDoor:
    """A TCP port and a fresh token, for ranks on other machines. It listens at `host`; ranks reach it by the name or
    address `known_as`, where that is another one. Raises OSError."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, known_as: str = "") -> None:
        self.token = secrets.token_urlsafe(32)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        self.listener.setblocking(False)
        name = known_as or host
        name = f"[{name}]" if ":" in name else name
        self.environment = {ADDRESS: f"tcp://{name}:{self.listener.getsockname()[1]}", TOKEN: self.token}

    def accept(self) -> socket.socket:
        """See `Door`."""
        return self.listener.accept()[0]

    def close(self) -> None:
        """See `Door`."""
        self.listener.close()
