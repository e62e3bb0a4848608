"""Two hosts at a bridge, in namespaces that this process makes, as an ordinary user or as root.

One process has both ends of every connection: a socket belongs to the network namespace in which it was made.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import random
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from chaoskit.environments.netns.network import ip

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NET, NEW_USER = 0x40000000, 0x10000000
LIMIT = 100.0


class Hosts:
    """Hosts 0 and 1, at 10.0.0.1 and 10.0.0.2, fd00::1 and fd00::2."""

    def __init__(self) -> None:
        uid, gid = os.getuid(), os.getgid()
        try:
            unshare(NEW_NET)
        except PermissionError:
            unshare(NEW_USER)
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
                Path("/proc/self", name).write_text(text)
            unshare(NEW_NET)
        self._base = os.open("/proc/self/ns/net", os.O_RDONLY)
        ip("link set lo up", "link add chaos type bridge mcast_snooping 0", "link set chaos up")
        self._networks = []
        for number in (0, 1):
            unshare(NEW_NET)
            network = os.open("/proc/self/ns/net", os.O_RDONLY)
            self._networks.append(network)
            LIBC.setns(self._base, NEW_NET)
            ip(
                f"link add v{number} type veth peer name e{number}",
                f"link set e{number} netns /proc/self/fd/{network}",
                f"link set v{number} master chaos up",
                files=[network],
            )
            with self.on(number):
                ip(
                    f"link set e{number} name eth0",
                    "link set eth0 addrgenmode none",
                    f"addr add 10.0.0.{number + 1}/24 dev eth0",
                    f"addr add fd00::{number + 1}/64 dev eth0 nodad",
                    "link set eth0 up",
                )

    @contextmanager
    def on(self, number: int) -> Iterator[None]:
        LIBC.setns(self._networks[number], NEW_NET)
        try:
            yield
        finally:
            LIBC.setns(self._base, NEW_NET)

    def links(self) -> list[str]:
        """The interfaces of the base, and of which bridge they are."""
        text = subprocess.run(["ip", "-j", "link"], capture_output=True, check=True).stdout
        return sorted(f"{link['ifname']} {link.get('master')}" for link in json.loads(text))

    def connection(self, version: int = 4) -> tuple[socket.socket, socket.socket]:
        """The ends of a TCP connection, on host 0 and host 1."""
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        with self.on(1):
            ear = socket.socket(family)
            ear.bind(("::" if version == 6 else "0.0.0.0", 0))
            ear.listen()
        with self.on(0):
            here = socket.socket(family)
        here.settimeout(LIMIT)
        here.connect((address(1, version), ear.getsockname()[1]))
        there, _ = ear.accept()
        for end in (here, there):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(LIMIT)
        return here, there

    def datagrams(self, version: int = 4) -> tuple[socket.socket, socket.socket]:
        """A UDP socket on host 0 that sends to another on host 1."""
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        with self.on(1):
            ear = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            ear.bind(("::" if version == 6 else "0.0.0.0", 0))
        with self.on(0):
            mouth = socket.socket(family, socket.SOCK_DGRAM)
            mouth.connect((address(1, version), ear.getsockname()[1]))
        return mouth, ear

    def seen(self, number: int, protocol: str) -> dict[str, int]:
        """What the network of a host has counted."""
        with self.on(number):
            lines = [line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines()]
            lines6 = [line.split() for line in Path("/proc/self/net/snmp6").read_text().splitlines()]
        names, values = (line[1:] for line in lines if line[0] == f"{protocol}:")
        found = {name: int(value) for name, value in zip(names, values, strict=True)}
        for name, value in lines6:
            if name.startswith(f"{protocol}6"):
                found[name.removeprefix(f"{protocol}6")] += int(value)
        return found


def address(number: int, version: int) -> str:
    return f"fd00::{number + 1}" if version == 6 else f"10.0.0.{number + 1}"


def unshare(kinds: int) -> None:
    if LIBC.unshare(kinds) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")


def carry(
    source: socket.socket, target: socket.socket, size: int, *, at: Mapping[int, Callable[[], Any]] | None = None
) -> bool:
    """Send `size` bytes and receive them, do what is to be done once so many have come; whether what came is what
    was sent."""
    data = random.Random(size).randbytes(1 << 20)
    sent, came = hashlib.sha256(), hashlib.sha256()
    out = got = 0
    todo = sorted((at or {}).items())
    source.setblocking(False)
    target.setblocking(False)
    deadline = time.monotonic() + LIMIT
    while got < size:
        assert time.monotonic() < deadline, f"{got} bytes of {size} came"
        readable, writable, _ = select.select([target], [source] if out < size else [], [], 1.0)
        if writable:
            begin = out % len(data)
            n = source.send(data[begin : begin + min(1 << 18, size - out)])
            sent.update(data[begin : begin + n])
            out += n
        if readable:
            piece = target.recv(1 << 18)
            came.update(piece)
            got += len(piece)
        while todo and got >= todo[0][0]:
            todo.pop(0)[1]()
    for end in (source, target):
        end.settimeout(LIMIT)
    return sent.digest() == came.digest()


def round_trip(here: socket.socket, there: socket.socket) -> float:
    begun = time.monotonic()
    for source, target in ((here, there), (there, here)):
        source.sendall(b"x")
        assert target.recv(1) == b"x"
    return time.monotonic() - begun


def meet(mouth: socket.socket, ear: socket.socket) -> None:
    """Send a greeting and wait until it has come, however busy the machine is: what comes later was sent later."""
    deadline = time.monotonic() + LIMIT
    mouth.send(b"who is there")
    while drain(ear, 0.1) != [b"who is there"]:
        assert time.monotonic() < deadline, "the greeting did not come"


def drain(ear: socket.socket, wait: float = 0.0) -> list[bytes]:
    """The datagrams that are there, and those that come before nothing has come for so long."""
    found = []
    while select.select([ear], [], [], wait)[0]:
        with suppress(BlockingIOError):  # its checksum is wrong, as the kernel has only now seen
            found.append(ear.recv(1 << 16))
    return found
