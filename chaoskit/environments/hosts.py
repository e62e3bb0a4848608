"""`Hosts`: virtual hosts on one machine, made of namespaces, joined by a bridge. What the holder does all day.

Each host has a network, a hostname, an `/etc/hosts` and a `/dev/shm` of its own; processes, users and all other files
it shares with the machine. The networks of different runs never meet, so all of them may have the same addresses. An
ordinary user makes them inside a user namespace in which he is himself, root makes them directly where he may.
Standard library only.
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
from pathlib import Path
from typing import Any

from chaoskit.environments import wire
from chaoskit.environments.network import NetworkError, counters, ip, nft
from chaoskit.environments.wire import Quality, Wire
from chaoskit.launch.host import KINDS, call, set_capabilities

#: The addresses of hosts: the last byte is the number of the host plus 1.
NETWORK = "10.77.0"
MOST_HOSTS = 250
#: Our own datagrams go to this port; what they meet is not counted as the job's.
_PING_PORT = 7177
_PING_LIMIT = 0.1
#: How long a new host may take to answer.
_UP_LIMIT = 3.0
_ARP = 0x0806

#: What names a TCP connection at the end that it comes to.
_FLOW = "ip saddr . tcp sport . tcp dport"

_AMBIENT, _RAISE = 47, 2
_NET_ADMIN, _NET_RAW, _SYS_ADMIN = 12, 13, 21
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_OWN = KINDS["uts"] | KINDS["net"] | KINDS["mnt"]


@dataclass
class Host:
    """One of them: its `number`, and its namespaces, held open."""

    number: int
    fds: dict[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{NETWORK}.{self.number + 1}"

    @property
    def port(self) -> str:
        """The end of its cable, at the bridge."""
        return f"v{self.number}"


@dataclass(frozen=True)
class Cut:
    """See `CanPartition.cut`."""

    ways: tuple[tuple[str, str], ...]
    how: str
    percent: float


class Hosts:
    """All hosts of a run. Each public method is a request to the holder; they raise OSError and NetworkError."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}
        self._numbers: dict[str, int] = {}
        self._wires: dict[int, dict[str, Wire]] = {}
        self._cuts: dict[int, Cut] = {}
        self._counted: dict[int, dict[str, int]] = {}
        self._made = 0
        self._base: dict[str, int] = {}
        self._user = False

    def begin(self) -> dict[str, Any]:
        """Make the network that the hosts will be joined to."""
        self._user = _unshare()
        call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
        self._base = _opened(("net", "mnt", "uts"))
        ip("link set lo up", "link add chaos type bridge mcast_snooping 0", "link set chaos up")
        return {"user": self._user}

    def add(self, name: str, number: int, names: str) -> dict[str, Any]:
        """Make a host; `names` is the file that is to be its `/etc/hosts`. Its namespaces, for `chaoskit.launch.host`,
        and its address."""
        host = Host(number)
        call("unshare", _OWN)
        try:
            host.fds = _opened(("net", "mnt", "uts"))
            socket.sethostname(name)
            call("mount", os.fsencode(names), b"/etc/hosts", None, _MS_BIND, None)
            call("mount", b"shm", b"/dev/shm", b"tmpfs", 0, b"mode=1777")
        finally:
            self._go(self._base)
        end = f"e{number}"
        ip(
            # A host that is made again must not be waited for because its address has moved.
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
        me = f"/proc/{os.getpid()}"
        paths = {kind: f"{me}/fd/{fd}" for kind, fd in host.fds.items()}
        if self._user:
            paths["user"] = f"{me}/ns/user"
        return {"host": paths, "address": host.address}

    def unplug(self, name: str) -> None:
        """Pull its cable: from now on nobody hears of it."""
        ip(f"link set {self._hosts[name].port} down")

    def remove(self, name: str) -> None:
        """Let go of a host. Once no process is left on it, it is gone."""
        host = self._hosts.pop(name)
        with suppress(NetworkError):  # gone with the other end
            ip(f"link del {host.port}")
        for fd in host.fds.values():
            os.close(fd)

    def cut(self, ways: Sequence[Sequence[str]], how: str, percent: float) -> int:
        """See `CanPartition`."""
        self._made += 1
        made = Cut(tuple((source, target) for source, target in ways), how, percent)
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
                nft(f"delete table inet {_table(cut)}")
        return counted

    def lost(self, cut: int) -> dict[str, int]:
        """See `CanPartition`. What a host had counted that is gone is gone with it."""
        made, found = self._cuts[cut], self._counted[cut]
        for target in {way[1] for way in made.ways if way[1] in self._hosts}:
            with self._in(self._hosts[target], "net"):
                seen = counters(_table(cut))
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
            ear.bind((self._hosts[target].address, _PING_PORT))
            ear.settimeout(_PING_LIMIT)
            try:
                mouth.sendto(b"chaoskit", (self._hosts[target].address, _PING_PORT))
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

    def _apply(self, number: int, cut: Cut, ways: Sequence[tuple[str, str]]) -> None:
        """Rules at the entry of each target, in a table of their own, which is easily taken away."""
        targets: dict[str, list[str]] = {}
        for source, target in ways:
            targets.setdefault(target, []).append(source)
        for target, sources in targets.items():
            if target in self._hosts:
                addresses = {source: Host(self._numbers[source]).address for source in sources}
                with self._in(self._hosts[target], "net"):
                    nft(*_rules(_table(number), cut, addresses))

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
    """Until a host answers, for seconds at most, and then tell all others where it is, as one that boots does.

    The kernel takes note of a cable that is plugged in when it finds the time, and drops what is sent meanwhile; and
    who has asked for an address in vain asks again a second later.
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


def _rules(table: str, cut: Cut, sources: Mapping[str, str]) -> list[str]:
    """The table of a cut at one target; `sources` are addresses by name."""
    lines = [f"add table inet {table}"]
    lines.append(f"add chain inet {table} entry {{ type filter hook input priority 0; }}")
    if cut.how == "reset":
        lines.append(f"add set inet {table} begun {{ typeof {_FLOW}; size 65535; flags dynamic; }}")
    share = "" if cut.percent >= 100 else f"numgen random mod 100000 < {round(cut.percent * 1000)} "
    for name, address in sources.items():
        counter, packet = f"from_{name}", f"ip saddr {address}"
        lines.append(f"add counter inet {table} {counter}")
        rule = f"add rule inet {table} entry {packet}"
        if cut.how == "reset":
            # What has begun since is known by its SYN, at both ends of it, and goes on.
            lines.append(f"{rule} tcp flags & (syn | rst) == syn add @begun {{ {_FLOW} }} accept")
            lines.append(f"{rule} {_FLOW} @begun accept")
            lines.append(f"{rule} tcp flags & rst == 0x0 counter name {counter} reject with tcp reset")
        else:
            # Ours, and what kernels say of it, is not counted; nor does it take its chance twice.
            for own in (f"udp dport {_PING_PORT}", "ip protocol icmp"):
                lines += [f"{rule} {own} {verdict}" for verdict in (f"{share}drop", "accept")]
            lines.append(f"{rule} {share}counter name {counter} drop")
    return lines


def _table(number: int) -> str:
    return f"cut_{number}"


def _opened(kinds: Sequence[str]) -> dict[str, int]:
    """The namespaces that this process is in now, held open."""
    return {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}


def _unshare() -> bool:
    """Leave the machine's namespaces; whether that took a user namespace. Raises OSError."""
    try:
        call("unshare", _OWN)
        return False
    except PermissionError:
        pass
    uid, gid = os.geteuid(), os.getegid()
    call("unshare", KINDS["user"])
    for name, text in (("uid_map", f"{uid} {uid} 1"), ("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1")):
        Path("/proc/self", name).write_text(text)
    call("unshare", _OWN)
    if uid:
        # What an ordinary user executes loses its capabilities, unless they are ambient: ip and nft need these.
        wanted = (_NET_ADMIN, _NET_RAW, _SYS_ADMIN)
        everything = (1 << int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1) - 1
        set_capabilities(everything, inheritable=sum(1 << number for number in wanted))
        for number in wanted:
            call("prctl", _AMBIENT, _RAISE, number, 0, 0)
    return True
