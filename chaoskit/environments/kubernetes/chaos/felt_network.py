"""`FeltNetwork`: what the job's pods feel of their network. No fault is believed from what Chaos Mesh says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from chaoskit.environments.kubernetes.chaos.chaos_pods import ChaosPods
from chaoskit.environments.machine.tcp_connections import (
    TcpConnection,
    rise,
    same_address,
    sent_again,
    unanswered,
)
from chaoskit.environments.netns.cuts import PING_PORT
from chaoskit.errors import ChaoskitError

_PING_LIMIT, _ROUND_TRIP_LIMIT = 0.2, 2.0
#: Segments that are sent again although nothing is wrong: so many times what is usual for the pod, and some more.
_USUAL_TIMES, _USUAL_AT_LEAST = 3.0, 3


@dataclass(frozen=True)
class PodNetwork:
    """The connections and counters of one pod at one time."""

    connections: tuple[TcpConnection, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)

    def usual(self, now: PodNetwork) -> int:
        """How many segments would have been sent again since, had nothing changed."""
        sent = max(1, self.counters.get("Tcp.OutSegs", 0))
        share = self.counters.get("Tcp.RetransSegs", 0) / sent
        more = rise(self.counters, now.counters, "Tcp.OutSegs")
        return _USUAL_AT_LEAST + math.ceil(_USUAL_TIMES * share * more)


Networks = Mapping[str, PodNetwork]
Count = Callable[[Iterable[TcpConnection], Iterable[TcpConnection], str], int]


class FeltNetwork:
    """Asks the agents in the pods."""

    def __init__(self, pods: ChaosPods) -> None:
        self._pods = pods

    def of(self, nodes: Iterable[str]) -> dict[str, PodNetwork]:
        """What is felt on these nodes; without those whose pod is gone."""
        found = {}
        up = self._pods.nodes()
        for node in dict.fromkeys(nodes):
            if node in up:
                try:
                    told = self._pods.ask(node, "network_felt")
                except ChaoskitError:
                    continue  # it has gone since; whoever needs it finds it missing
                connections = tuple(TcpConnection(**one) for one in told["connections"])
                found[node] = PodNetwork(connections, told["counters"])
        return found

    def round_trip(self, source: str, target: str) -> float | None:
        """Seconds from one node to another and back; None if nothing comes back."""
        address = self._pods.address(target)
        found = self._pods.ask(source, "round_trips", address=address, port=PING_PORT, count=3, limit=_ROUND_TRIP_LIMIT)
        return median(found) if found else None

    def reaches(self, source: str, target: str) -> bool:
        """Whether a test datagram from one node comes to the other."""
        if not {source, target} <= set(self._pods.nodes()):
            return False
        try:
            self._pods.ask(target, "listen", port=PING_PORT)
            sent = self._pods.ask(source, "ping", address=self._pods.address(target), port=PING_PORT)
            heard = {"address": self._pods.address(source), "seconds": _PING_LIMIT}
            return bool(sent and self._pods.ask(target, "heard", **heard))
        except ChaoskitError:
            return False


def stopped(
    ways: Collection[tuple[str, str]],
    addresses: Mapping[str, str],
    before: Networks,
    now: Networks,
    *,
    all_of_them: bool,
) -> dict[tuple[str, str], int]:
    """How many packets of the job were stopped on each way since, at least.

    `all_of_them`: what goes into a closed way is tried again and again without an answer. The same happens at the other
    end, whose answers do not come through; that counts, too, unless the way back is one of `ways`. Else a share is
    lost, and what is lost is sent again: more often than on this pod before.
    """
    count = unanswered if all_of_them else sent_again
    found = {}
    for source, target in ways:
        ends = [(source, target)] if (target, source) in ways else [(source, target), (target, source)]
        found[source, target] = sum(_felt(count, one, addresses[other], before, now) for one, other in ends)
    if not all_of_them:
        for source in {way[0] for way in ways}:
            mine = [way for way in ways if way[0] == source]
            nodes = {node for way in mine for node in way}
            usual = sum(before[node].usual(now[node]) for node in nodes & before.keys() & now.keys())
            if sum(found[way] for way in mine) <= usual:
                found |= dict.fromkeys(mine, 0)
    return found


def _felt(count: Count, node: str, other: str, before: Networks, now: Networks) -> int:
    had, has = before.get(node, PodNetwork()), now.get(node, PodNetwork())
    return count(had.connections, has.connections, same_address(other))
