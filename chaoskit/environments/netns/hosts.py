"""`Hosts`: virtual hosts on one machine, made of namespaces and joined by a bridge. The netns helper serves it.

Each host has its own network, hostname, `/etc/hosts` and `/dev/shm`; it shares processes, users and all other files
with the machine. Networks of different runs are separate, so they use the same addresses. An ordinary user makes
the hosts inside a user namespace, root makes them directly. Standard library only.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from chaoskit.environments.launch.host import KINDS, call
from chaoskit.environments.netns import wire
from chaoskit.environments.netns.cuts import PING_PORT, InstalledCut, rules, table_of
from chaoskit.environments.netns.namespaces import OWN, opened, unshare
from chaoskit.environments.netns.network import NetworkError, counters, ip, nft
from chaoskit.environments.netns.wire import Quality, Wire

#: The addresses of hosts: the last byte is the number of the host plus 1.
NETWORK = "10.77.0"
MOST_HOSTS = 250
_PING_LIMIT = 0.1
#: Seconds in which a new host must answer.
_UP_LIMIT = 3.0
_ARP = 0x0806

_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_SLAVE, _MS_SHARED = 0x1000, 0x4000, 0x40000, 0x80000, 0x100000


@dataclass
class Host:
    """One virtual host: its `number`, and its namespaces, held open."""

    number: int
    fds: dict[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{NETWORK}.{self.number + 1}"

    @property
    def port(self) -> str:
        """The interface at the bridge's end of its cable."""
        return f"v{self.number}"


class Hosts:
    """All virtual hosts of a run. Each public method is a request to the helper. They raise OSError and
    NetworkError.
    """

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}
        self._numbers: dict[str, int] = {}
        self._wires: dict[int, dict[str, Wire]] = {}
        self._cuts: dict[int, InstalledCut] = {}
        self._counted: dict[int, dict[str, int]] = {}
        self._made = 0
        self._base: dict[str, int] = {}
        self._user = False

    def begin(self) -> dict[str, Any]:
        """Make the network that the hosts will be joined to."""
        self._user = unshare()
        call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
        # The storage of the job is mounted here later and must appear on every host.
        call("mount", None, b"/", None, _MS_REC | _MS_SHARED, None)
        self._base = opened(("net", "mnt", "uts"))
        ip("link set lo up", "link add chaos type bridge mcast_snooping 0", "link set chaos up")
        return {"within": self._paths({"mnt": self._base["mnt"]})}

    def add(self, name: str, number: int, names: str) -> dict[str, Any]:
        """Make a host. `names` is the file to mount as its `/etc/hosts`. Returns its namespaces (for
        `chaoskit.environments.launch.host`), its address and the inode of its network namespace.
        """
        host = Host(number)
        call("unshare", OWN)
        try:
            host.fds = opened(("net", "mnt", "uts"))
            socket.sethostname(name)
            call("mount", None, b"/", None, _MS_REC | _MS_SLAVE, None)  # what is mounted here stays here
            call("mount", os.fsencode(names), b"/etc/hosts", None, _MS_BIND, None)
            call("mount", b"shm", b"/dev/shm", b"tmpfs", 0, b"mode=1777")
        finally:
            self._go(self._base)
        end = f"e{number}"
        ip(
            # A host that is made again keeps its hardware address, so others need not learn a new one.
            f"link add {host.port} type veth peer name {end} address 02:00:0a:4d:00:{number:02x}",
            f"link set {end} netns /proc/self/fd/{host.fds['net']}",
            f"link set {host.port} master chaos up",
            files=[host.fds["net"]],
        )
        self._hosts[name], self._numbers[name] = host, host.number
        for made, cut in self._cuts.items():
            self._apply(made, cut, [way for way in cut.ways if way[1] == name])
        with self._in(host, "net"):
            ip(
                "link set lo up",
                f"link set {end} name eth0",
                f"addr add {host.address}/24 dev eth0",
                "link set eth0 up",
            )
        _await(host.address)
        network = os.fstat(host.fds["net"]).st_ino
        return {"host": self._paths(host.fds), "address": host.address, "network": network}

    def listen(self, name: str, address: str, port: int, hand_to: str) -> None:
        """Open a socket at an address that the host then has for itself alone, and hand it over through the Unix socket
        at the path `hand_to`. No other host sees the address, nor the machine.
        """
        with self._in(self._hosts[name], "net"):
            ip(f"addr add {address}/32 dev lo")
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with made, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            with self._in(self._hosts[name], "net"):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.bind((address, port))
            line.connect(hand_to)
            socket.send_fds(line, [b"x"], [made.fileno()])

    def _paths(self, fds: Mapping[str, int]) -> dict[str, str]:
        """The paths by which other processes open these namespaces, and the user namespace that owns them."""
        me = f"/proc/{os.getpid()}"
        user = {"user": f"{me}/ns/user"} if self._user else {}
        return {**user, **{kind: f"{me}/fd/{fd}" for kind, fd in fds.items()}}

    def unplug(self, name: str) -> None:
        """Set the host's end of the bridge down: no other host receives anything from it."""
        ip(f"link set {self._hosts[name].port} down")

    def remove(self, name: str) -> None:
        """Remove a host. Its namespaces disappear when no process is left in them."""
        host = self._hosts.pop(name)
        with suppress(NetworkError):  # gone with the other end
            ip(f"link del {host.port}")
        for fd in host.fds.values():
            os.close(fd)

    def cut(self, ways: Sequence[Sequence[str]], how: str, percent: float) -> int:
        """See `CanPartition`."""
        self._made += 1
        made = InstalledCut(tuple((source, target) for source, target in ways), how, percent)
        self._apply(self._made, made, made.ways)
        self._cuts[self._made] = made
        self._counted[self._made] = {}
        return self._made

    def mend(self, cut: int) -> dict[str, int]:
        """See `CanPartition`; how many packets were stopped in all."""
        made = self._cuts.get(cut)
        if made is None:
            return {}
        counted = self.lost(cut)
        del self._cuts[cut]
        for target in {way[1] for way in made.ways if way[1] in self._hosts}:
            with self._in(self._hosts[target], "net"):
                nft(f"delete table inet {table_of(cut)}")
        return counted

    def lost(self, cut: int) -> dict[str, int]:
        """See `CanPartition`. What a host had counted that is gone is gone with it."""
        made, found = self._cuts[cut], self._counted[cut]
        for target in {way[1] for way in made.ways if way[1] in self._hosts}:
            with self._in(self._hosts[target], "net"):
                seen = counters(table_of(cut))
            for source in (way[0] for way in made.ways if way[1] == target):
                found[f"{source}>{target}"] = seen.get(f"from_{source}", 0)
        return dict(found)

    def reaches(self, source: str, target: str) -> bool:
        """See `CanPartition`."""
        with self._in(self._hosts[target], "net"):
            ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with self._in(self._hosts[source], "net"):
            mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with ear, mouth:
            ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ear.bind((self._hosts[target].address, PING_PORT))
            ear.settimeout(_PING_LIMIT)
            try:
                mouth.sendto(b"chaoskit", (self._hosts[target].address, PING_PORT))
                return bool(ear.recvfrom(64)[1][0] == self._hosts[source].address)
            except OSError:  # nothing came, or there is no way
                return False

    def degrade(self, nodes: Sequence[str], **quality: Any) -> int:
        """See `CanDegrade`; `quality` are the fields of a `Quality`."""
        wired = {name for wires in self._wires.values() for name in wires}
        if twice := sorted(wired & set(nodes)):
            raise NetworkError(f"the link of {twice[0]} is degraded already")
        self._made += 1
        wires = self._wires[self._made] = {}
        try:
            for name in nodes:
                number = self._hosts[name].number
                wires[name] = wire.insert(number, Quality(**quality, seed=self._made << 8 | number), ip)
        except BaseException:
            self.restore(self._made)
            raise
        return self._made

    def restore(self, degraded: int) -> None:
        """See `CanDegrade`."""
        for name, each in self._wires.pop(degraded, {}).items():
            with suppress(NetworkError):  # the host is gone
                wire.remove(self._numbers[name], each, ip)

    def degraded(self, degraded: int) -> dict[str, float]:
        """See `CanDegrade`."""
        counts = [each.counts() for each in self._wires[degraded].values()]
        return {name: sum(each[name] for each in counts) for name in wire.COUNTS}

    def resolves(self, node: str, name: str) -> bool:
        """See `CanHideNames`. Asked by a child: the C library remembers what it has read."""
        pid = os.fork()
        if pid == 0:
            try:
                self._go(self._hosts[node].fds)
                socket.getaddrinfo(name.encode(), None)  # bytes: text would import what may not be readable here
                os._exit(0)
            except BaseException:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def _apply(self, number: int, cut: InstalledCut, ways: Sequence[tuple[str, str]]) -> None:
        """Install the rules at each target, in a table of their own, which is removed as a whole."""
        targets: dict[str, list[str]] = {}
        for source, target in ways:
            targets.setdefault(target, []).append(source)
        for target, sources in targets.items():
            if target in self._hosts:
                addresses = {source: Host(self._numbers[source]).address for source in sources}
                with self._in(self._hosts[target], "net"):
                    nft(*rules(table_of(number), cut, addresses))

    @contextmanager
    def _in(self, host: Host, kind: str) -> Iterator[None]:
        self._go({kind: host.fds[kind]})
        try:
            yield
        finally:
            self._go({kind: self._base[kind]})

    def _go(self, fds: Mapping[str, int]) -> None:
        for kind, fd in fds.items():
            call("setns", fd, KINDS[kind])


def _await(address: str) -> None:
    """Wait until a host answers, a few seconds at most, and announce its address to all others, as a booting host
    does.

    The kernel notices a new cable late and drops packets until then. A host that asked for an address in vain asks
    again only a second later.
    """
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP)) as line:
        line.bind(("chaos", _ARP))
        own, wanted = line.getsockname()[4], socket.inet_aton(address)

        def say(hardware: bytes, source: bytes) -> None:
            words = (b"\xff" * 6, own, _ARP, 1, 0x0800, 6, 4, 1, hardware, source, b"", wanted)
            with suppress(OSError):  # the bridge itself is not up yet
                line.send(struct.pack("!6s6sHHHBBH6s4s6s4s", *words))

        deadline = time.monotonic() + _UP_LIMIT
        while time.monotonic() < deadline:
            say(own, b"")  # from nobody's address, so that nobody remembers who asked
            while select.select([line], [], [], 0.01)[0]:
                heard = line.recv(64)
                if heard[28:32] == wanted:
                    return say(heard[22:28], wanted)
