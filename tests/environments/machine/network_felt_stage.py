"""`python -m tests.environments.machine.network_felt_stage SCENARIO` does something to two hosts and prints what the
first one's kernel says of it as JSON."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from chaoskit.environments.machine.tcp_connections import TcpConnection, rise, sent_again, unanswered
from chaoskit.environments.machine.tcp_retransmissions import felt, round_trips
from chaoskit.environments.netns.network import ip, nft
from chaoskit.environments.netns.wire import Quality, insert, remove
from tests.environments.netns.two_hosts import LIMIT, Hosts, address, carry

Felt = tuple[list[TcpConnection], dict[str, int]]


def main(scenario: str, *options: str) -> None:
    found = SCENARIOS[scenario](Hosts(), *options)
    print(json.dumps({**found, "uid": os.getuid()}))


def on(hosts: Hosts, number: int) -> Felt:
    with hosts.on(number):
        told = felt()
    return [TcpConnection(**one) for one in told["connections"]], told["counters"]


def until(hosts: Hosts, number: int, holds: Callable[[Felt], bool]) -> Felt:
    """What is felt on a host once it holds. The kernel tells nobody when it sends again, so it is asked."""
    deadline = time.monotonic() + LIMIT
    while not holds(now := on(hosts, number)):
        assert time.monotonic() < deadline, f"it never came to hold: {now}"
        time.sleep(0.02)
    return now


def nothing(hosts: Hosts) -> dict[str, Any]:
    return {}


def drop(hosts: Hosts, version: str, where: str) -> dict[str, Any]:
    """Packets to host 1 are dropped where they leave host 0, or where they come to host 1; and then no more."""
    here, there = hosts.connection(int(version))
    remote = address(1, int(version))
    carried = carry(here, there, 1 << 20)
    before, counted = on(hosts, 0)
    at, hook, field = (0, "output", "daddr") if where == "sender" else (1, "input", "saddr")
    family = "ip6" if version == "6" else "ip"
    other = remote if where == "sender" else address(0, int(version))
    with hosts.on(at):
        nft(
            "add table inet stop",
            f"add chain inet stop {hook} {{ type filter hook {hook} priority 0; }}",
            f"add rule inet stop {hook} {family} {field} {other} drop",
        )
    quiet = unanswered(before, on(hosts, 0)[0], remote)
    here.sendall(b"x" * 1000)

    seen = until(hosts, 0, lambda told: unanswered(before, told[0], remote) >= 2)
    back = unanswered(before, on(hosts, 1)[0], address(0, int(version)))
    (pending,) = [one.unacknowledged for one in seen[0] if one.remote == remote]
    with hosts.on(at):
        nft("delete table inet stop")
    there.settimeout(LIMIT)
    came = 0
    while came < 1000:
        came += len(there.recv(1000))
    after = until(hosts, 0, lambda told: all(one.unacknowledged == 0 for one in told[0] if one.remote == remote))
    again = sent_again(before, after[0], remote)
    return {
        "carried": carried, "quiet": quiet, "pending": pending, "back": back,
        "again": again, "segments": rise(counted, after[1], "Tcp.RetransSegs"),
        "left": [one.unanswered for one in after[0] if one.remote == remote],
    }  # fmt: skip


def free(hosts: Hosts, version: str) -> dict[str, Any]:
    """Nothing is done to a connection that carries much."""
    here, there = hosts.connection(int(version))
    before, counted = on(hosts, 0)
    carried = carry(here, there, 20 << 20)
    now, counts = on(hosts, 0)
    sent = rise(counted, counts, "IpExt.OutOctets")
    remote = address(1, int(version))
    return {"carried": carried, "unanswered": unanswered(before, now, remote), "sent": sent}


def late(hosts: Hosts, delay: str) -> dict[str, Any]:
    """Round trips to host 1, with a slow link and without it; none comes back where all is dropped."""

    def typical() -> float:
        with hosts.on(0):
            return median(round_trips(address(1, 4), 7177, count=5))

    found = {"before": typical()}
    wire = insert(0, Quality(delay=float(delay)), ip)
    found["slow"] = typical()
    here, there = hosts.connection()
    for _ in range(5):
        here.sendall(b"x")
        assert there.recv(1) == b"x"
    (smoothed,) = [one.round_trip for one in on(hosts, 0)[0] if one.remote == address(1, 4)]
    remove(0, wire, ip)
    with hosts.on(1):
        nft("add table inet stop", "add chain inet stop in { type filter hook input priority 0; policy drop; }")
    with hosts.on(0):
        stopped = round_trips(address(1, 4), 7177, count=2, limit=0.3)
    return {**found, "smoothed": smoothed, "stopped": stopped}


def damaged(hosts: Hosts) -> dict[str, Any]:
    """A link that flips bits: the receiver's kernel sees that checksums are wrong."""
    here, there = hosts.connection()
    counted = on(hosts, 1)[1]
    insert(0, Quality(corrupt=5.0, seed=1), ip)
    carried = carry(here, there, 2 << 20)
    return {"carried": carried, "wrong": rise(counted, on(hosts, 1)[1], "Tcp.InCsumErrors")}


def lossy(hosts: Hosts, percent: str) -> dict[str, Any]:
    """A share of the packets to host 1 is dropped where they come to it."""
    here, there = hosts.connection()
    before, counted = on(hosts, 0)
    with hosts.on(1):
        nft(
            "add table inet thin",
            "add chain inet thin in { type filter hook input priority 0; }",
            f"add rule inet thin in ip saddr {address(0, 4)} numgen random mod 100 < {percent} drop",
        )
    carried = carry(here, there, 2 << 20)
    now, counts = on(hosts, 0)
    return {
        "carried": carried, "again": sent_again(before, now, address(1, 4)),
        "segments": rise(counted, counts, "Tcp.RetransSegs"), "out": rise(counted, counts, "Tcp.OutSegs"),
    }  # fmt: skip


SCENARIOS: dict[str, Callable[..., dict[str, Any]]] = {
    one.__name__: one for one in (nothing, drop, free, lossy, late, damaged)
}

if __name__ == "__main__":
    assert socket.has_ipv6
    main(*sys.argv[1:])
