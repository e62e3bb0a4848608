"""A network of nodes that is none: it keeps count of what is cut, degraded, hidden and lost, and packets go over it
when a test sends some.

    net = FakeNetwork(2)
    cut = net.cut([("node0", "node1")])
    net.send("node0", "node1", packets=3)
    assert net.lost(cut) == {"node0>node1": 3}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass
class Cut:
    """Ways that are cut, and what was stopped on each so far."""

    ways: tuple[tuple[str, str], ...]
    how: str
    percent: float
    lost: dict[str, int]


@dataclass
class Degraded:
    """Links that are slow or noisy, and what has gone over them."""

    nodes: tuple[str, ...]
    delay: float
    jitter: float
    rate: float | None
    corrupt: float
    counts: dict[str, float] = field(
        default_factory=lambda: {"packets": 0, "bytes": 0, "corrupted": 0, "held": 0.0}
    )


class FakeNetwork:
    """`count` nodes, each with two ranks. `leaky` lets datagrams through all cuts, `most` is what a job may grow to."""

    def __init__(self, count: int = 2, *, most: int = 4) -> None:
        self.up = [f"node{number}" for number in range(count)]
        self.made = count
        self.most = most
        self.leaky = False
        self.cuts: dict[int, Cut] = {}
        self.slow: dict[int, Degraded] = {}
        self.forgetful: set[str] = set()
        self.frozen: set[str] = set()
        self.gone: set[str] = set()
        self.asked: list[str] = []
        self.leaving: dict[str, bool] = {}
        self.number = 0

    def send(self, source: str, target: str, packets: int = 1) -> None:
        """The job sends packets of 1000 bytes."""
        for cut in self.cuts.values():
            if (source, target) in cut.ways:
                stopped = int(packets * cut.percent / 100)
                cut.lost[f"{source}>{target}"] += stopped
                packets -= stopped
        for slow in self.slow.values():
            if {source, target} & set(slow.nodes):
                slow.counts["packets"] += packets
                slow.counts["bytes"] += 1000 * packets
                slow.counts["corrupted"] += int(packets * slow.corrupt / 100)
                slow.counts["held"] += packets * (slow.delay + (1000 / slow.rate if slow.rate else 0))

    def nodes(self) -> tuple[str, ...]:
        return tuple(self.up)

    def cut(
        self,
        ways: Sequence[tuple[str, str]],
        *,
        how: Literal["drop", "reset"] = "drop",
        percent: float = 100.0,
    ) -> int:
        assert ways and all(a in self.up and b in self.up and a != b for a, b in ways)
        self.number += 1
        self.cuts[self.number] = Cut(tuple(ways), how, percent, {f"{a}>{b}": 0 for a, b in ways})
        return self.number

    def reset(self, ways: Sequence[tuple[str, str]]) -> int:
        return self.cut(ways, how="reset")

    def mend(self, cut: int) -> None:
        self.cuts.pop(cut, None)

    def lost(self, cut: int) -> Mapping[str, int]:
        return dict(self.cuts[cut].lost)

    def reaches(self, source: str, target: str) -> bool:
        assert {source, target} <= set(self.up)
        shut = [cut for cut in self.cuts.values() if (source, target) in cut.ways]
        return self.leaky or not any(cut.how == "drop" and cut.percent == 100 for cut in shut)

    def degrade(
        self,
        nodes: Sequence[str],
        *,
        delay: float = 0.0,
        jitter: float = 0.0,
        rate: float | None = None,
        corrupt: float = 0.0,
    ) -> int:
        assert nodes and set(nodes) <= set(self.up)
        self.number += 1
        self.slow[self.number] = Degraded(tuple(nodes), delay, jitter, rate, corrupt)
        return self.number

    def restore(self, degraded: int) -> None:
        self.slow.pop(degraded, None)

    def degraded(self, degraded: int) -> Mapping[str, float]:
        return dict(self.slow[degraded].counts)

    def hide_names(self, nodes: Sequence[str]) -> None:
        self.forgetful |= set(nodes)

    def show_names(self, nodes: Sequence[str]) -> None:
        self.forgetful -= set(nodes)

    def resolves(self, node: str, name: str) -> bool:
        assert node in self.up
        return node == name or node not in self.forgetful

    def lose_node(self, node: str, *, replaced: bool = False) -> Mapping[str, Any]:
        self._must_be_up(node)
        self.up.remove(node)
        self.gone.add(node)
        if replaced:
            self.add_node()
        return {"ended": 3}

    def is_lost(self, node: str) -> bool:
        return node in self.gone

    def freeze_node(self, node: str) -> Mapping[str, Any]:
        self._must_be_up(node)
        self.frozen.add(node)
        return {"pids": [1, 2]}

    def is_frozen(self, node: str) -> bool:
        return node in self.frozen

    def thaw_node(self, node: str) -> None:
        self.frozen.discard(node)

    def add_node(self) -> str:
        if len(self.up) >= self.most:
            raise LookupError(f"the job runs on {self.most} nodes already, as many as it may")
        self.up.append(f"node{self.made}")
        self.made += 1
        return self.up[-1]

    def remove_node(self, node: str) -> None:
        """It is asked; its ranks are gone once `obey` is called."""
        self._must_be_up(node)
        self.up.remove(node)
        self.asked.append(node)

    def obey(self) -> None:
        """Who was asked to end has ended."""
        self.asked.clear()

    def evict_node(self, node: str, *, replaced: bool) -> Mapping[str, Any]:
        """It gets its notice; it is gone once `obey` is called."""
        self._must_be_up(node)
        self.leaving[node] = replaced
        self.asked.append(node)
        return {"pod": f"pod-of-{node}"}

    def evicted(self, node: str) -> Mapping[str, Any] | None:
        return None if node in self.asked else {"gone": node, "grace": 30.0, "ended": 1.5, "killed": None}

    def drain_node(self, node: str) -> Mapping[str, Any]:
        """It is evicted; the fresh node is up once `replace` is called."""
        return self.evict_node(node, replaced=True)

    def replace(self) -> None:
        """A fresh node takes the place of each that was evicted."""
        for node in [node for node, replaced in self.leaving.items() if replaced]:
            del self.leaving[node]
            self.up.remove(node)
            self.add_node()

    def drained(self, node: str) -> Mapping[str, Any] | None:
        seen = self.evicted(node)
        if seen is None or node in self.up:
            return None
        return {**seen, "machine": f"machine-of-{node}", "fresh": {"node": self.up[-1], "machine": "other"}}

    def ranks_of(self, node: str) -> tuple[int, ...]:
        alive = [*self.up, *self.asked]
        return (2 * alive.index(node), 2 * alive.index(node) + 1) if node in alive else ()

    def _must_be_up(self, node: str) -> None:
        if node not in self.up:
            raise LookupError(f"{node} is not up")
