"""Ways: ordered pairs of nodes, source and target, that a fault of the network closes or thins out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Protocol

from chaoskit.capabilities import CanPartition, Way
from chaoskit.faults.node.nodes import NodeSpec, numbers, resolve_nodes


class Ways(Protocol):
    """A choice of ways, made before the nodes have names."""

    @property
    def nodes_meant(self) -> tuple[int, ...]: ...
    def among(self, name: str, known: Sequence[str]) -> list[Way]:
        """The ways, given the nodes that are up. Raises LookupError, beginning with `name`, for a node that is not."""
        ...


@dataclass(frozen=True)
class BetweenGroups:
    """Every way from a node of one group to a node of another."""

    groups: tuple[tuple[int, ...], ...]

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return tuple(node for group in self.groups for node in group)

    def among(self, name: str, known: Sequence[str]) -> list[Way]:
        groups = [resolve_nodes(name, group, known) for group in self.groups]
        return [(a, b) for one, other in permutations(groups, 2) for a in one for b in other]


@dataclass(frozen=True)
class AroundNodes:
    """Every way that begins or ends at one of these nodes."""

    node: NodeSpec

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return numbers(self.node)

    def among(self, name: str, known: Sequence[str]) -> list[Way]:
        nodes = resolve_nodes(name, self.node, known)
        return [way for way in permutations(known, 2) if set(way) & set(nodes)]


@dataclass(frozen=True)
class OneDirection:
    """The way from one node to another, without the way back."""

    source: int
    target: int

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.source, self.target)

    def among(self, name: str, known: Sequence[str]) -> list[Way]:
        source, target = resolve_nodes(name, self.nodes_meant, known)
        return [(source, target)]


def show(way: Way) -> str:
    """'node0>node1': the form in which evidence names a way."""
    return ">".join(way)


def read(way: str) -> Way:
    """The inverse of `show`."""
    source, _, target = way.partition(">")
    return source, target


def reaches(env: CanPartition, ways: Iterable[str]) -> dict[str, bool]:
    """By way, whether a datagram gets through. Ways of a node that is not up are left out."""
    up = set(env.nodes())
    return {way: env.reaches(*read(way)) for way in ways if up.issuperset(read(way))}
