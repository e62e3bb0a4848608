"""`felt_quality`: whether links are slow or noisy, as the pods at their ends feel it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from chaoskit.environments.kubernetes.chaos.felt_network import FeltNetwork, PodNetwork
from chaoskit.environments.machine.tcp_connections import CHECKSUMS, rise
from chaoskit.environments.netns.wire import QUEUE

#: Of a delay that was asked for, the share that must be felt: round trips vary by themselves.
_SHARE = 0.5
#: Without a delay, so many seconds of waiting, and so many times those before, tell of a queue at a slow link.
_QUEUED, _QUEUED_TIMES = 0.005, 2.0
#: A slow link must not let more through than its rate, by this factor.
_MORE = 1.25


@dataclass(frozen=True)
class LinkQuality:
    """What was asked for, and what was felt `before`: the round trips of each pair, and the networks of the pods."""

    nodes: tuple[str, ...]
    delay: float
    rate: float | None
    corrupt: float
    trips: Mapping[tuple[str, str], float | None]
    before: Mapping[str, PodNetwork]
    begun: float = field(default_factory=time.monotonic)


def felt_quality(quality: LinkQuality, felt: FeltNetwork) -> dict[str, float]:
    """`packets`, `bytes`, `corrupted` and `held`, see `CanDegrade.degraded`. What is not felt is 0."""
    before, now = quality.before, felt.of(quality.before)
    known = now.keys() & before.keys()
    rises = {node: _rises(before[node], now[node]) for node in known}
    mine = [rises[node] for node in quality.nodes if node in rises]
    packets, size = sum(one[0] for one in mine), sum(one[1] for one in mine)
    late = _late(quality, felt) if quality.delay else _queued(quality, now) if quality.rate is not None else 0.0
    return {
        "packets": float(packets),
        "bytes": float(size),
        "corrupted": float(sum(one[2] for one in rises.values()) if quality.corrupt else 0),
        "held": late * packets,
    }


def _rises(before: PodNetwork, now: PodNetwork) -> tuple[int, int, int]:
    had, has = before.counters, now.counters
    packets = rise(had, has, "Tcp.InSegs", "Tcp.OutSegs", "Udp.InDatagrams", "Udp.OutDatagrams")
    return packets, rise(had, has, "IpExt.InOctets", "IpExt.OutOctets"), rise(had, has, *CHECKSUMS)


def _late(quality: LinkQuality, felt: FeltNetwork) -> float:
    """By how many seconds a packet is late, on the average of the links; 0 unless each is late enough."""
    found = []
    for (source, target), trip in quality.trips.items():
        now = felt.round_trip(source, target)
        if trip is not None and now is not None:
            found.append((now - trip) / 2)  # both directions are slow
    enough = found and min(found) >= _SHARE * quality.delay
    return sum(found) / len(found) if enough else 0.0


def _queued(quality: LinkQuality, now: Mapping[str, PodNetwork]) -> float:
    """The longest that packets of the job wait at a slow link; 0 if nothing waits, or more gets through than its rate
    allows."""
    assert quality.rate is not None
    seconds = time.monotonic() - quality.begun
    waits = []
    for node in quality.nodes:
        if node not in now or node not in quality.before:
            continue
        links = sum(1 for pair in quality.trips if node in pair)
        sent = rise(quality.before[node].counters, now[node].counters, "IpExt.OutOctets")
        if sent > links * (_MORE * quality.rate * seconds + QUEUE):
            return 0.0
        usual = _longest_trip(quality.before[node])
        wait = _longest_trip(now[node]) - usual
        waits.append(wait if wait >= max(_QUEUED, (_QUEUED_TIMES - 1) * usual) else 0.0)
    return max(waits, default=0.0)


def _longest_trip(network: PodNetwork) -> float:
    """Of the connections that carry something now, the longest round trip."""
    return max((one.round_trip or 0.0 for one in network.connections if one.unacknowledged), default=0.0)
