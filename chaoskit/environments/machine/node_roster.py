"""`NodeRoster`: the nodes of one run by name: which are up, which were lost, and which come back."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from chaoskit.errors import UsageError
from chaoskit.nodes import NodeLossPolicy

_LOOPBACK = "127.0.0.1 localhost\n::1 localhost\n"


@dataclass(frozen=True)
class Away:
    """A lost node: when the scheduler acts on the loss, and which node then takes its place: itself, a spare, or
    None.
    """

    at: float
    by: str | None


class NodeRoster:
    """`up`: the nodes that are up, in order. `away`: the lost nodes and what becomes of them, the next one first.
    `numbers`: the number of every node that the run has had, at most `most` of them.
    """

    def __init__(self, most: int) -> None:
        self.up: list[str] = []
        self.away: list[Away] = []
        self.numbers: dict[str, int] = {}
        self._most = most

    def number(self, node: str) -> int:
        """The number of a node; a new one for a new name. Raises UsageError if no more can be had."""
        number = self.numbers.get(node, len(self.numbers))
        if number >= self._most:
            raise UsageError(f"all {self._most} nodes that a run can have were used up")
        self.numbers[node] = number
        return number

    def at(self, number: int) -> str:
        """The node that is up with this number in their order, negative from the last. Raises LookupError."""
        if not -len(self.up) <= number < len(self.up):
            raise LookupError(f"node {number} is not up; up are {', '.join(self.up) or 'none'}")
        return self.up[number]

    def admit(self, node: str) -> None:
        """Count the node as up."""
        self.up.append(node)
        self.up.sort(key=self.numbers.__getitem__)

    def lose(self, node: str, policy: NodeLossPolicy) -> str | None:
        """Count the node as lost; `policy` decides what follows. Returns the node that will take its place."""
        self.up.remove(node)
        spare = self.next_name() if policy.lost == "spare" else None
        by = node if policy.lost == "returns" else spare
        self.away.append(Away(time.monotonic() + policy.after, by))
        self.away.sort(key=lambda away: away.at)
        return by

    def free_name(self, taken: Collection[str]) -> str:
        """A node that is not up, not on its way back, and not among `taken`; a new one if there is none."""
        gone = {*self.up, *taken, *(away.by for away in self.away)}
        return next((node for node in self.numbers if node not in gone), self.next_name())

    def next_name(self) -> str:
        """A name that no node of this run has had."""
        taken = {*self.numbers, *(away.by for away in self.away)}
        return next(name for number in range(self._most + 1) if (name := f"node{number}") not in taken)


def write_names(path: Path, lines: Collection[str]) -> None:
    """Write the `/etc/hosts` of a node. In place: the node has this very file mounted."""
    path.write_text(_LOOPBACK + "".join(lines))
