"""`ContainerNodes`: the nodes of one run as containers: start them, find their agents, lose them, name them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.agents.agent_line import AgentDoor, AgentLine
from chaoskit.environments.agents.agent_nodes import AgentNode, AgentNodes
from chaoskit.environments.agents.image_facts import ImageFacts
from chaoskit.environments.docker import places
from chaoskit.environments.docker.daemon import Daemon, DaemonError
from chaoskit.environments.docker.host_paths import HostPaths
from chaoskit.environments.docker.objects import Objects
from chaoskit.environments.machine.node_roster import NodeRoster, write_names
from chaoskit.errors import ChaoskitError

#: torch's data loaders pass tensors through /dev/shm, of which Docker gives a container 64 MB.
SHM = 2 << 30
#: Seconds for a container to start, on a busy machine.
_UP_LIMIT = 120.0


@dataclass(kw_only=True)
class ContainerNode(AgentNode):
    """One node: also its container, the pid of its first process on this machine, and the inode of its network."""

    container: str
    pid: int
    network: int


class ContainerNodes(AgentNodes[ContainerNode]):
    """The containers of the nodes in `roster`. `place` tells what a node sees, given the path of its /etc/hosts;
    `directory` holds those, and `known` are lines that each of them has."""

    def __init__(
        self,
        daemon: Daemon,
        objects: Objects,
        *,
        image: ImageFacts,
        cwd: str,
        door: AgentDoor,
        host: HostPaths,
        directory: Path,
        roster: NodeRoster,
        place: Callable[[Path], list[places.Place]],
        known: Sequence[str] = (),
    ) -> None:
        super().__init__(door)
        self.roster = roster
        self._daemon, self._objects, self._image, self._cwd = daemon, objects, image, cwd
        self._directory, self._place, self._host = directory, place, host
        self._known = list(known)
        self._network, self._network_name = objects.network()
        self._addresses: dict[str, str] = {}
        self._hidden: set[str] = set()

    # Beginning and end of a node.

    def make(self, node: str | None = None) -> str:
        """Start a container for the node, in place of an older one; returns its name. Raises UsageError if there can be
        no more nodes, and ChaoskitError if it does not start."""
        node = node if node is not None else self.roster.next_name()
        self.roster.number(node)
        if node in self.now:
            self._forget(self.now.pop(node))
        self._names(node).touch()
        self._names(node).chmod(0o644)  # for every user of the image, whatever our umask
        container = self._objects.container(
            node,
            image=self._image.id,
            entrypoint=[self._image.python],
            command=["-I", "-S", places.AGENT, self._door.address, node],
            hostname=node,
            working_dir=self._cwd,
            environment=dict(places.variables()),
            host_config=self._host_config(node),
        )
        with self._daemon.doing(f"start the container of {node}") as client:
            client.start(container)
        line = self._door.take({"agent": node}, limit=_UP_LIMIT, alive=lambda: self._must_run(node, container))
        with self._daemon.doing(f"look at the container of {node}") as client:
            about = client.inspect_container(container)
        address = next(iter(about["NetworkSettings"]["Networks"].values()))["IPAddress"]
        agent = AgentLine(line, gone=gone(f"the container of {node}"))
        self._addresses[node] = address
        self.now[node] = ContainerNode(
            name=node,
            mark=container[:12],
            agent=agent,
            address=address,
            container=container,
            pid=about["State"]["Pid"],
            network=agent.ask("network"),
        )
        self._write_names()
        self.roster.admit(node)
        return node

    def _host_config(self, node: str) -> Any:
        mounts = places.as_mounts(self._place(self._names(node)), self._host)
        with self._daemon.doing("describe a container") as client:
            return client.create_host_config(mounts=mounts, network_mode=self._network_name, shm_size=SHM)

    def _must_run(self, node: str, container: str) -> None:
        """Raises ChaoskitError with its last words if the container has ended."""
        with self._daemon.doing(f"look at the container of {node}") as client:
            state = client.inspect_container(container)["State"]
            if state["Running"]:
                return
            said = client.logs(container, tail=5).decode(errors="replace").strip()
        raise ChaoskitError(
            f"the container of {node} has ended at once: {' '.join(said.split()) or state['Error']}"
        )

    def _forget(self, node: ContainerNode) -> None:
        node.agent.close()
        self._objects.remove(node.container)

    def kill(self, node: str) -> Mapping[str, Any]:
        """Cut the container off the network, and kill everything in it; returns what was killed, as evidence."""
        found = self.now[node]
        with self._daemon.doing(f"cut {node} off") as client:
            client.disconnect_container_from_network(found.container, self._network, force=True)
            with suppress(DaemonError):  # it may have ended by itself
                client.kill(found.container, signal="SIGKILL")
        found.is_frozen = False
        return {"container": found.mark, "isolated_by": "network disconnect"}

    def address(self, node: str) -> str:
        """The address that a node has, or had last."""
        return self._addresses[node]

    def is_up(self, node: str) -> bool:
        """Whether the daemon says that the container of the node runs."""
        found = self.now.get(node)
        if found is None:
            return False
        try:
            with self._daemon.doing(f"look at the container of {node}") as client:
                return bool(client.inspect_container(found.container)["State"]["Running"])
        except DaemonError as error:
            if error.status == 404:
                return False
            raise

    def freeze(self, node: str) -> Mapping[str, Any]:
        """Pause the container, by the freezer of its cgroup."""
        found = self.now[node]
        with self._daemon.doing(f"pause {node}") as client:
            client.pause(found.container)
        found.is_frozen = True
        return {"container": found.mark}

    def is_paused(self, node: str) -> bool:
        """Whether the daemon says that the container is paused."""
        found = self.now[node]
        with self._daemon.doing(f"look at {node}") as client:
            return bool(client.inspect_container(found.container)["State"]["Paused"])

    def thaw(self, node: str) -> None:
        """Let a paused container go on."""
        found = self.now.get(node)
        if found is not None and found.is_frozen:
            with self._daemon.doing(f"unpause {node}") as client:
                client.unpause(found.container)
            found.is_frozen = False

    def update(self, node: ContainerNode, **settings: int) -> None:
        """Change the limits of a container; `settings` are those of the SDK's `update_container`. Raises
        DaemonError."""
        with self._daemon.doing(f"change the limits of {node.name}") as client:
            client.update_container(node.container, **settings)

    def close(self) -> None:
        """Let go of the agents: each ends with its container."""
        for node in self.now.values():
            node.agent.close()

    # Names.

    def hide(self, nodes: Collection[str], *, hidden: bool) -> None:
        """Make all other nodes' names unknown on these nodes, or known again."""
        self._hidden = self._hidden | set(nodes) if hidden else self._hidden - set(nodes)
        self._write_names()

    def _names(self, node: str) -> Path:
        return self._directory / f"hosts-{node}"

    def _write_names(self) -> None:
        lines = {node: f"{address} {node}\n" for node, address in self._addresses.items()}
        for node in lines:
            nodes = [lines[node]] if node in self._hidden else list(lines.values())
            write_names(self._names(node), [*self._known, *nodes])


def gone(what: str) -> str:
    """The sentence for a container that has ended."""
    return (
        f"{what} has ended, or does not answer: if you did not end it, did the Docker daemon start again? Then run "
        "this again"
    )
