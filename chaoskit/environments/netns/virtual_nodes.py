"""`VirtualNodes`: the nodes of one run as virtual hosts: their namespaces, their directories, and their names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from chaoskit.environments.machine.node_roster import NodeRoster, write_names
from chaoskit.environments.metadata.metadata_server import ADDRESS, PORT
from chaoskit.environments.metadata.run_metadata import RunMetadata, known_names
from chaoskit.environments.netns.client import NetnsClient
from chaoskit.environments.netns.hosts import NETWORK
from chaoskit.files.removal import remove


class VirtualNodes:
    """`client` makes the hosts of the nodes in `roster`; `directory` holds their temporary directories and their
    /etc/hosts. With `metadata`, each host has its service at the address at which all clouds have theirs.
    """

    def __init__(
        self, client: NetnsClient, directory: Path, roster: NodeRoster, *, metadata: RunMetadata | None = None
    ) -> None:
        self.client = client
        self.roster = roster
        self._directory = directory
        self._metadata = metadata
        self._made: dict[str, Mapping[str, Any]] = {}
        self._hidden: set[str] = set()

    def make(self, node: str | None = None) -> str:
        """Start a host of that name, replacing an older one, or of a new name; returns the name. Raises UsageError
        if no more hosts can be made.
        """
        node = node if node is not None else self.roster.next_name()
        number = self.roster.number(node)
        if node in self._made:
            self.client.ask("remove", name=node)
        remove(self.scratch(node), within=self._directory)
        self.scratch(node).mkdir(mode=0o700)
        self._write_names()
        self._made[node] = self.client.ask("add", name=node, number=number, names=str(self._names(node)))
        if self._metadata is not None:
            listener = self.client.listener(node, ADDRESS, PORT, directory=self._directory)
            self._metadata.serve(node, listener)
        self.roster.admit(node)
        return node

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
        numbers = self.roster.numbers
        lines = {node: f"{NETWORK}.{number + 1} {node}\n" for node, number in numbers.items()}
        always = known_names(self._metadata)
        for node in numbers:
            known = [lines[node]] if node in self._hidden else list(lines.values())
            write_names(self._names(node), [*always, *known])
