"""`TcpConnection`: what the kernel says of one TCP connection; and how /proc/net/tcp, tcp6, snmp and netstat are read.

Standard library only: an agent reads these files where the job runs, in the network namespace of the job. The parsers
are pure functions.
"""

from __future__ import annotations

import ipaddress
import itertools
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

LISTEN = 10
#: Counters of a network namespace that tell of packets that were sent, lost or damaged.
COUNTERS = {
    "Tcp": ("InSegs", "OutSegs", "RetransSegs", "InErrs", "InCsumErrors"),
    "Udp": ("InDatagrams", "OutDatagrams", "InErrors", "InCsumErrors"),
    "IpExt": ("InOctets", "OutOctets"),
}
#: Of these, the ones that count checksums that were wrong.
CHECKSUMS = ("Tcp.InCsumErrors", "Udp.InCsumErrors")


@dataclass(frozen=True)
class TcpConnection:
    """`local` and `remote` are addresses without ports; an IPv4 address is written as one also where it came through an
    IPv6 socket. `unacknowledged` bytes were sent, or wait to be. `retries` is how often the oldest of them was sent
    again without an answer, `probes` how often the kernel has tried in vain to send anything: so it does where its own
    firewall drops what it sends. Both are 0 again with the next answer. `inode` is that of the socket.

    `retransmitted` counts the segments that were sent again in the life of the connection, and `round_trip` is the
    smoothed time in seconds; both are None where only /proc was read.
    """

    local: str
    local_port: int
    remote: str
    remote_port: int
    state: int
    unacknowledged: int
    retries: int
    probes: int
    inode: int
    retransmitted: int | None = None
    round_trip: float | None = None

    @property
    def unanswered(self) -> int:
        """How often it has been tried in vain since the last answer."""
        return self.retries + self.probes

    @property
    def key(self) -> tuple[str, int, str, int]:
        """What tells the connections of a network namespace apart at one time."""
        return self.local, self.local_port, self.remote, self.remote_port


def parsed(text: str) -> tuple[TcpConnection, ...]:
    """The lines of /proc/net/tcp or tcp6. A line that is no connection, such as the heading, is skipped."""
    return tuple(found for line in text.splitlines() if (found := _connection(line)) is not None)


def _connection(line: str) -> TcpConnection | None:
    """`sl: local rem st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...`, most of it in hexadecimal. What
    the heading calls `timeout` are the probes."""
    words = line.split()
    if len(words) < 10 or not words[0].endswith(":"):
        return None
    try:
        local, local_port = end(words[1])
        remote, remote_port = end(words[2])
        unacknowledged, _, _ = words[4].partition(":")
        return TcpConnection(
            local, local_port, remote, remote_port, state=int(words[3], 16), unacknowledged=int(unacknowledged, 16),
            retries=int(words[6], 16), probes=int(words[8]), inode=int(words[9]),
        )  # fmt: skip
    except ValueError:
        return None


def end(text: str) -> tuple[str, int]:
    """`0100007F:1F90` on a little-endian machine: address and port. The kernel prints an address as words in the order
    of the machine. Raises ValueError."""
    address, _, port = text.partition(":")
    if len(address) not in (8, 32) or len(port) != 4:
        raise ValueError(f"no end of a connection: {text!r}")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return written(packed), int(port, 16)


def written(packed: bytes) -> str:
    """An address of 4 or 16 bytes as text."""
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def same_address(text: str) -> str:
    """An address as `written` writes it, however it was written. Raises ValueError for what is none."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        return written(socket.inet_pton(family, text))
    except OSError as error:
        raise ValueError(f"{text!r} is no address of a machine") from error


def counters(*texts: str) -> dict[str, int]:
    """Those of `COUNTERS` that /proc/net/snmp and netstat have, by names such as `Tcp.RetransSegs`. In these files a
    line of names is followed by a line of values."""
    found = {}
    for text in texts:
        lines = [line.split() for line in text.splitlines()]
        for names, values in itertools.pairwise(lines):
            wanted = COUNTERS.get(names[0].removesuffix(":"), ()) if names and values[:1] == names[:1] else ()
            for name, value in zip(names[1:], values[1:], strict=False):
                if name in wanted and value.isdecimal():
                    found[f"{names[0].removesuffix(':')}.{name}"] = int(value)
    return found


def unanswered(before: Iterable[TcpConnection], now: Iterable[TcpConnection], remote: str) -> int:
    """How often more than before the connections to this address are tried in vain: 0 where everything gets through,
    however busy the machines are."""
    return sum(max(0, one.unanswered - (had.unanswered if had else 0)) for had, one in _pairs(before, now, remote))


def sent_again(before: Iterable[TcpConnection], now: Iterable[TcpConnection], remote: str) -> int:
    """How many segments to this address were sent again since. A few are on every link: kernels do so on suspicion."""
    return sum(
        max(0, (one.retransmitted or 0) - ((had.retransmitted or 0) if had else 0))
        for had, one in _pairs(before, now, remote)
    )


def _pairs(
    before: Iterable[TcpConnection], now: Iterable[TcpConnection], remote: str
) -> Iterator[tuple[TcpConnection | None, TcpConnection]]:
    """The connections to an address, with what they were before; None for those that have come since."""
    earlier = {one.key: one for one in before}
    for one in now:
        if one.remote == remote and one.state != LISTEN:
            had = earlier.get(one.key)
            same = had is not None and (had.inode == one.inode or not had.inode or not one.inode)
            yield (had if same else None), one  # else the ports are used again


def rise(before: Mapping[str, int], now: Mapping[str, int], *names: str) -> int:
    """By how much these counters have risen together. A counter that is not there counts as 0."""
    return sum(max(0, now.get(name, 0) - before.get(name, 0)) for name in names)
