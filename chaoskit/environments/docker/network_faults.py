"""`ContainerNetwork`: cuts between containers, made at the container that packets come to, and slow or noisy links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Literal

from chaoskit.capabilities import Way
from chaoskit.environments.agents.agent_line import AgentGone
from chaoskit.environments.docker.container_nodes import ContainerNodes
from chaoskit.environments.docker.network_helpers import NodeHelpers
from chaoskit.environments.netns.cuts import PING_PORT
from chaoskit.errors import ChaoskitError

_PING_LIMIT = 0.2


@dataclass
class _Cut:
    ways: tuple[Way, ...]
    how: str
    percent: float
    counted: dict[str, int] = field(default_factory=dict)


@dataclass
class _Degraded:
    """`counted` by node; what a container had counted that is gone stays."""

    nodes: tuple[str, ...]
    counted: dict[str, Mapping[str, float]] = field(default_factory=dict)


class ContainerNetwork:
    """What is done to the network of one run, numbered, by its `helpers`."""

    def __init__(self, containers: ContainerNodes, helpers: NodeHelpers) -> None:
        self._containers = containers
        self._helpers = helpers
        self._cuts: dict[int, _Cut] = {}
        self._degraded: dict[int, _Degraded] = {}
        self._made = 0

    def cut(self, ways: Sequence[Way], *, how: Literal["drop", "reset"], percent: float) -> int:
        """See `CanPartition`."""
        self._made += 1
        made = self._cuts[self._made] = _Cut(tuple((a, b) for a, b in ways), how, percent)
        try:
            for target in dict.fromkeys(way[1] for way in made.ways):
                self._apply(self._made, made, target)
        except BaseException:
            with suppress(ChaoskitError):
                self.mend(self._made)
            raise
        return self._made

    def _apply(self, number: int, made: _Cut, target: str) -> None:
        sources = {a: self._containers.address(a) for a, b in made.ways if b == target}
        if target in self._containers.now and sources:
            helper = self._helpers.take(target, number)
            helper.ask("cut", number=number, how=made.how, percent=made.percent, sources=sources)

    def came_up(self, node: str) -> None:
        """A fresh container takes the place of a node: what is cut stays cut, and its link is a good one."""
        self._helpers.drop(node)
        for number, made in self._cuts.items():
            self._apply(number, made, node)

    def goes(self, node: str) -> None:
        """The container of a node is about to end: its link is counted and given back now, so that the daemon finds the
        interface that it has made."""
        for number, made in self._degraded.items():
            if node in made.nodes:
                with suppress(ChaoskitError):
                    self._count(number, node)
                    self._restore(node, number)

    def mend(self, cut: int) -> None:
        """See `CanPartition`."""
        if cut not in self._cuts:
            return
        with suppress(ChaoskitError):
            self.lost(cut)
        made = self._cuts.pop(cut)
        for target in {way[1] for way in made.ways}:
            if (helper := self._helpers.of(target)) is not None:
                helper.ask("mend", number=cut)
            self._helpers.leave(target, cut)

    def lost(self, cut: int) -> Mapping[str, int]:
        """See `CanPartition`. What a container had counted that is gone is gone with it."""
        made = self._cuts[cut]
        for target in {way[1] for way in made.ways}:
            if (helper := self._helpers.of(target)) is not None:
                for source, count in helper.ask("lost", number=cut).items():
                    made.counted[f"{source}>{target}"] = count
        return dict(made.counted)

    def degrade(self, nodes: Sequence[str], **quality: float | None) -> int:
        """See `CanDegrade`. A link is degraded once at a time. Raises ChaoskitError."""
        self._made += 1
        self._degraded[self._made] = _Degraded(tuple(nodes))
        try:
            for node in nodes:
                helper = self._helpers.take(node, self._made)
                seed = self._made << 8 | self._containers.roster.number(node)
                address = self._containers.address(node)
                helper.ask("degrade", number=self._made, address=address, seed=seed, **quality)
        except BaseException:
            with suppress(ChaoskitError):
                self.restore(self._made)
            raise
        return self._made

    def restore(self, degraded: int) -> None:
        """See `CanDegrade`."""
        made = self._degraded.pop(degraded, None)
        with ExitStack() as all_of_them:
            for node in made.nodes if made is not None else ():
                all_of_them.callback(self._restore, node, degraded)

    def _restore(self, node: str, number: int) -> None:
        try:
            if (helper := self._helpers.of(node)) is not None:
                helper.ask("restore", number=number)
        finally:
            self._helpers.leave(node, number)

    def degraded(self, degraded: int) -> Mapping[str, float]:
        """See `CanDegrade`. Raises ChaoskitError where frames are no longer carried."""
        made = self._degraded[degraded]
        for node in made.nodes:
            self._count(degraded, node)
        names = dict.fromkeys(name for counts in made.counted.values() for name in counts)
        return {name: sum(counts[name] for counts in made.counted.values()) for name in names}

    def _count(self, number: int, node: str) -> None:
        helper = self._helpers.of(node)
        if helper is not None and (counts := helper.ask("degraded", number=number)):
            self._degraded[number].counted[node] = counts

    def reaches(self, source: str, target: str) -> bool:
        """See `CanPartition`: the agents send a datagram and wait for it."""
        one, other = (self._containers.now.get(name) for name in (source, target))
        if one is None or other is None or one.is_frozen or other.is_frozen:
            return False
        try:
            other.agent.ask("listen", port=PING_PORT)
            sent = one.agent.ask("ping", address=other.address, port=PING_PORT)
            return bool(sent and other.agent.ask("heard", address=one.address, seconds=_PING_LIMIT))
        except AgentGone:
            return False

    def close(self) -> None:
        """Give back all links, and end all helpers; the rules of cuts end with the containers."""
        for number in list(self._degraded):
            with suppress(ChaoskitError):
                self.restore(number)
        self._helpers.close()
