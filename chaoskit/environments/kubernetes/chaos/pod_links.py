"""`PodLinks`: cuts between the pods of nodes, and slow or noisy links, made by Chaos Mesh and proved by the pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaoskit.capabilities import Way
from chaoskit.environments.kubernetes.chaos import network_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_pods import USUAL, ChaosFaults, ChaosLimits, ChaosPods
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec
from chaoskit.environments.kubernetes.chaos.felt_network import FeltNetwork, PodNetwork, stopped
from chaoskit.environments.kubernetes.chaos.felt_quality import LinkQuality, felt_quality

#: Links of one pod that Chaos Mesh can treat each in its own way: a queue of the kernel has 16 bands, and it keeps 3.
MOST_LINKS = 13


@dataclass
class _PodCut:
    ways: tuple[Way, ...]
    percent: float
    addresses: dict[str, str]
    before: dict[str, PodNetwork]
    counted: dict[Way, int] = field(default_factory=dict)


class PodLinks:
    """What is done to the network of one run, numbered."""

    def __init__(self, pods: ChaosPods, *, limits: ChaosLimits = USUAL) -> None:
        self._pods = pods
        self._longest = limits.longest
        self._felt = FeltNetwork(pods)
        self.faults = ChaosFaults(pods, limits)
        self._cuts: dict[int, _PodCut] = {}
        self._degraded: dict[int, LinkQuality] = {}

    def cut(self, ways: Sequence[Way], *, percent: float) -> int:
        """See `CanPartition`: each way is a NetworkChaos of its own. Raises ClusterError."""
        each: tuple[Way, ...] = tuple(dict.fromkeys((a, b) for a, b in ways))
        if percent < 100:
            self._must_be_free(each)
        specs = {way: self._cut_of(way, percent) for way in each}
        nodes = tuple(dict.fromkeys(node for way in each for node in way))
        made = _PodCut(each, percent, {node: self._pods.address(node) for node in nodes}, self._felt.of(nodes))
        number = self.faults.begin("cut", specs)
        self._cuts[number] = made
        return number

    def came_up(self, node: str) -> None:
        """A fresh pod takes the place of a node: what is cut stays cut, and its link is a good one. Raises
        ChaoskitError."""
        for number, made in self._cuts.items():
            ways = [way for way in made.ways if node in way]
            if not ways:
                continue
            self._count(made)
            made.addresses[node] = self._pods.address(node)
            made.before |= self._felt.of([node])
            up = {node, *self._pods.nodes()}
            self.faults.renew(number, "cut", {way: self._cut_of(way, made.percent) for way in ways if {*way} <= up})

    def mend(self, cut: int) -> None:
        """See `CanPartition`. Raises ChaoskitError if Chaos Mesh does not take it back."""
        if cut in self._cuts:
            self._count(self._cuts.pop(cut))
        self.faults.end(cut)

    def lost(self, cut: int) -> Mapping[str, int]:
        """See `CanPartition`: what the job's own connections could not get through, or had to send again. It is less
        than what was dropped: what was tried again counts, and no test datagram."""
        made = self._cuts[cut]
        self._count(made)
        return {f"{a}>{b}": count for (a, b), count in made.counted.items()}

    def reaches(self, source: str, target: str) -> bool:
        """See `CanPartition`: the agents send a datagram and wait for it."""
        return self._felt.reaches(source, target)

    def degrade(
        self, nodes: Sequence[str], *, delay: float, jitter: float, rate: float | None, corrupt: float
    ) -> int:
        """See `CanDegrade`: each pair of nodes, of which one is meant at least, has one NetworkChaos for both
        directions. So `rate` is that of a pair, and between two of these nodes there is one delay, not two."""
        up = self._pods.nodes()
        pairs = tuple({frozenset((a, b)): (a, b) for a in nodes for b in up if a != b}.values())
        if not pairs:
            raise LookupError("there is no other node")
        self._must_be_free([way for a, b in pairs for way in ((a, b), (b, a))])
        specs = {
            (a, b): network_specs.poor_link(
                aim=self._aim(a), target=self._aim(b), direction="both", latency=delay, jitter=jitter,
                rate=None if rate is None else max(1, round(rate)), corrupt=corrupt, seconds=self._longest,
            )
            for a, b in pairs
        }  # fmt: skip
        involved = {node for pair in pairs for node in pair}
        trips = {pair: self._felt.round_trip(*pair) for pair in pairs}
        quality = LinkQuality(tuple(nodes), delay, rate, corrupt, trips, self._felt.of(involved))
        number = self.faults.begin("link", specs)
        self._degraded[number] = quality
        return number

    def restore(self, degraded: int) -> None:
        """See `CanDegrade`. Raises ChaoskitError if Chaos Mesh does not take it back."""
        self._degraded.pop(degraded, None)
        self.faults.end(degraded)

    def degraded(self, degraded: int) -> Mapping[str, float]:
        """See `CanDegrade`, as the pods feel it: `packets` and `bytes` that the nodes have sent and received,
        `corrupted`, the wrong checksums that the kernels have met, and `held`, the sum of the delays of the packets
        by the round trips before and now."""
        quality = self._degraded[degraded]
        return felt_quality(quality, self._felt)

    def evidence(self, number: int) -> dict[str, Any]:
        """Both what Chaos Mesh says of a cut or a slow link, and what the job's pods feel. Raises ClusterError."""
        said = self.faults.evidence(number)
        felt = self.lost(number) if number in self._cuts else self.degraded(number) if number in self._degraded else {}
        return {"chaos_mesh": said, "felt": dict(felt)}

    def close(self) -> None:
        """Take everything back. Raises ChaoskitError if Chaos Mesh does not."""
        self._cuts.clear()
        self._degraded.clear()
        self.faults.close()

    def _aim(self, node: str) -> Aim:
        return Aim(self._pods.selector(node))

    def _cut_of(self, way: Way, percent: float) -> ChaosSpec:
        aim, target = map(self._aim, way)
        if percent < 100:
            return network_specs.loss(aim=aim, target=target, percent=percent, seconds=self._longest)
        return network_specs.partition(aim=aim, target=target, direction="to", seconds=self._longest)

    def _count(self, made: _PodCut) -> None:
        now = self._felt.of(made.addresses)
        counts = stopped(made.ways, made.addresses, made.before, now, all_of_them=made.percent >= 100)
        for way, count in counts.items():
            made.counted[way] = max(count, made.counted.get(way, 0))

    def _must_be_free(self, ways: Sequence[Way]) -> None:
        """Chaos Mesh sends a packet through one queue: a second fault of the same link would replace the first."""
        taken = {way for cut in self._cuts.values() if cut.percent < 100 for way in cut.ways}
        for quality in self._degraded.values():
            taken |= {way for a, b in quality.trips for way in ((a, b), (b, a))}
        for a, b in ways:
            if (a, b) in taken:
                raise LookupError(f"the link from {a} to {b} is lossy, slow or noisy already: end that first")
        for node, many in Counter(a for a, _ in [*taken, *ways]).items():
            if many > MOST_LINKS:
                raise LookupError(
                    f"Chaos Mesh can change {MOST_LINKS} links of a pod, and {node} would have {many}: name fewer nodes"
                )
