"""`felt`: what a network does to the TCP connections of the network namespace of this process, as its kernel counts it.

Standard library only: an agent calls it where the job runs. A controller that says it has made a fault is not believed:
packets that are lost, late or damaged show here, in the job's own connections.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from chaoskit.environments.machine.tcp_connections import TcpConnection, counters, parsed, same_address

_NET = Path("/proc/self/net")
#: linux/sock_diag.h, linux/inet_diag.h, linux/netlink.h.
_SOCK_DIAG, _BY_FAMILY, _DUMP, _DONE, _ERROR, _INFO = 4, 20, 0x301, 3, 2, 2
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_ALL_STATES = 0xFFFFFFFF
_ANSWER = struct.Struct("=BBBB")
_INODE_AT, _ATTRIBUTES_AT = 68, 72
#: In `struct tcp_info`: the smoothed round trip in microseconds, and the segments that were sent again.
_ROUND_TRIP_AT, _RETRANSMITTED_AT = 68, 100
_LIMIT = 5.0


def felt() -> dict[str, Any]:
    """The `connections` (fields of `TcpConnection`) and the `counters` of this network namespace. Raises OSError."""
    files = [(_NET / name) for name in ("tcp", "tcp6")]
    found = [one for file in files if file.exists() for one in parsed(file.read_text())]
    known: dict[int, tuple[int, float]] = {}
    with suppress(OSError, ValueError):  # a kernel without it, or a sandbox that forbids it: /proc remains
        known = {inode: rest for inode, rest in diagnosed() if inode}
    completed = [_with(one, known.get(one.inode)) for one in found]
    texts = [(_NET / name).read_text() for name in ("snmp", "netstat")]
    return {"connections": [asdict(one) for one in completed], "counters": counters(*texts)}


def _with(one: TcpConnection, known: tuple[int, float] | None) -> TcpConnection:
    return one if known is None else replace(one, retransmitted=known[0], round_trip=known[1])


def diagnosed() -> Iterator[tuple[int, tuple[int, float]]]:
    """For each TCP socket its inode, the segments that it has sent again and its round trip in seconds, as the kernel
    says through netlink; any user may ask. Raises OSError, ValueError for an answer that is none."""
    for family in (socket.AF_INET, socket.AF_INET6):
        request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _ALL_STATES)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as line:
            line.settimeout(_LIMIT)
            line.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
            while True:
                for kind, body in messages(line.recv(1 << 18)):
                    if kind == _BY_FAMILY and (one := diagnosis(body)) is not None:
                        yield one
                    elif kind == _ERROR:
                        raise OSError(-struct.unpack_from("=i", body)[0], "the kernel refuses to tell of sockets")
                    elif kind == _DONE:
                        break
                else:
                    continue
                break


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The netlink messages of one answer: type and body. Raises ValueError."""
    while data:
        if len(data) < _HEADER.size:
            raise ValueError("a netlink message is too short")
        length, kind, *_ = _HEADER.unpack_from(data)
        if not _HEADER.size <= length <= len(data):
            raise ValueError("a netlink message has a wrong length")
        yield kind, data[_HEADER.size : length]
        data = data[length + 3 & ~3 :]


def diagnosis(body: bytes) -> tuple[int, tuple[int, float]] | None:
    """Of one `inet_diag_msg`: inode, retransmitted segments and round trip; None without its `tcp_info`."""
    if len(body) < _ATTRIBUTES_AT:
        return None
    (inode,) = struct.unpack_from("=I", body, _INODE_AT)
    rest = body[_ATTRIBUTES_AT:]
    while len(rest) >= 4:
        length, kind = struct.unpack_from("=HH", rest)
        if not 4 <= length <= len(rest):
            return None
        if kind == _INFO and length >= 4 + _RETRANSMITTED_AT + 4:
            (microseconds,) = struct.unpack_from("=I", rest, 4 + _ROUND_TRIP_AT)
            (again,) = struct.unpack_from("=I", rest, 4 + _RETRANSMITTED_AT)
            return inode, (again, microseconds / 1e6)
        rest = rest[length + 3 & ~3 :]
    return None


def round_trips(address: str, port: int, *, count: int = 3, limit: float = 2.0) -> list[float]:
    """Seconds until the kernel at that address has refused a connection to a port at which nobody listens; fewer than
    `count` where some do not come back within `limit` seconds each. Raises ValueError for what is no address.

    Nobody needs to run there for it: it measures the network, and not how busy a process is.
    """
    found = []
    address = same_address(address)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for _ in range(count):
        with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as mouth:
            begun = time.monotonic()
            try:
                mouth.connect_ex((address, port))
            except OSError:
                continue
            if select.select([], [mouth], [], limit)[1] and _came_back(mouth):
                found.append(time.monotonic() - begun)
    return found


def _came_back(mouth: socket.socket) -> bool:
    """Whether the other end has answered, with a refusal or, if somebody listens after all, with a welcome."""
    return mouth.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in (0, errno.ECONNREFUSED)
