"""`VirtualNodes`: the nodes of one run as virtual hosts: which are up, which come back, and what they are called."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.netns.client import NetnsClient
from chaoskit.environments.netns.hosts import MOST_HOSTS, NETWORK
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


class VirtualNodes:
    """`client` makes the hosts; `directory` holds their temporary directories and their /etc/hosts.

    `up`: the nodes that are up, in order. `away`: the lost nodes and what becomes of them, the next one first.
    """

    def __init__(self, client: NetnsClient, directory: Path) -> None:
        self.client = client
        self.up: list[str] = []
        self.away: list[Away] = []
        self._directory = directory
        self._numbers: dict[str, int] = {}
        self._made: dict[str, Mapping[str, Any]] = {}
        self._hidden: set[str] = set()

    def make(self, node: str | None = None) -> str:
        """Start a host of that name, replacing an older one, or of a new name; returns the name. Raises UsageError
        if no more hosts can be made.
        """
        node = node if node is not None else self.next_name()
        if node in self._made:
            self.client.ask("remove", name=node)
        number = self._numbers.setdefault(node, len(self._numbers))
        if number >= MOST_HOSTS:
            raise UsageError(f"{MOST_HOSTS} virtual hosts have been used up")
        shutil.rmtree(self.scratch(node), ignore_errors=True)
        self.scratch(node).mkdir(mode=0o700)
        self._write_names()
        self._made[node] = self.client.ask("add", name=node, number=number, names=str(self._names(node)))
        self.up.append(node)
        self.up.sort(key=self._numbers.__getitem__)
        return node

    def lose(self, node: str, policy: NodeLossPolicy) -> None:
        """Count the node as lost; `policy` decides what follows."""
        self.up.remove(node)
        spare = self.next_name() if policy.lost == "spare" else None
        by = node if policy.lost == "returns" else spare
        self.away.append(Away(time.monotonic() + policy.after, by))
        self.away.sort(key=lambda away: away.at)

    def bring_back(self) -> str | None:
        """Act on the next loss; returns the node that takes the place, or None."""
        away = self.away.pop(0)
        return self.make(away.by) if away.by is not None else None

    def free_name(self, taken: Collection[str]) -> str:
        """A node that is not up, not on its way back, and not among `taken`; a new one if there is none."""
        gone = {*self.up, *taken, *(away.by for away in self.away)}
        return next((node for node in self._numbers if node not in gone), self.next_name())

    def next_name(self) -> str:
        """A name that no node of this run has had."""
        taken = {*self._numbers, *(away.by for away in self.away)}
        return next(name for number in range(MOST_HOSTS + 1) if (name := f"node{number}") not in taken)

    def host(self, node: str) -> Mapping[str, str]:
        """The namespaces of a node, for `chaoskit.environments.launch.host`."""
        host: Mapping[str, str] = self._made[node]["host"]
        return host

    def network(self, node: str) -> int:
        """The inode of its network namespace, by which requests of its processes are known."""
        return int(self._made[node]["network"])

    def scratch(self, node: str) -> Path:
        """The directory of temporary files that is this node's own."""
        return self._directory / node

    def hide(self, nodes: Collection[str], *, hidden: bool) -> None:
        """Make all other nodes' names unknown on these nodes, or known again."""
        self._hidden = self._hidden | set(nodes) if hidden else self._hidden - set(nodes)
        self._write_names()

    def _names(self, node: str) -> Path:
        return self._directory / f"hosts-{node}"

    def _write_names(self) -> None:
        """The `/etc/hosts` of every node. Written in place: the hosts have these very files mounted."""
        lines = {node: f"{NETWORK}.{number + 1} {node}\n" for node, number in self._numbers.items()}
        for node in self._numbers:
            known = [lines[node]] if node in self._hidden else lines.values()
            self._names(node).write_text(_LOOPBACK + "".join(known))
