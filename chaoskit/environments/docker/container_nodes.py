"""`ContainerNodes`: the nodes of one run as containers: start them, find their agents, lose them, name them."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.docker import places
from chaoskit.environments.docker.agent_line import START_LIMIT, AgentDoor, AgentGone, AgentLine
from chaoskit.environments.docker.daemon import Daemon, DaemonError
from chaoskit.environments.docker.host_paths import HostPaths
from chaoskit.environments.docker.image import ImageFacts
from chaoskit.environments.docker.node_launch import ContainerLaunch
from chaoskit.environments.docker.objects import Objects
from chaoskit.environments.launch.launcher import WaitingKeeper
from chaoskit.environments.machine.node_roster import NodeRoster, write_names
from chaoskit.environments.machine.processes import Process
from chaoskit.errors import CannotWarm, ChaoskitError, UsageError

#: torch's data loaders pass tensors through /dev/shm, of which Docker gives a container 64 MB.
SHM = 2 << 30
#: Seconds for a container to start, on a busy machine.
_UP_LIMIT = 120.0


@dataclass
class ContainerNode:
    """One node: its container, its agent, its address, and the pid of its first process on this machine."""

    name: str
    container: str
    agent: AgentLine
    address: str
    pid: int
    network: int
    is_frozen: bool = False

    @property
    def mark(self) -> str:
        """What names the container in a reference to a process."""
        return self.container[:12]


class ContainerNodes:
    """The containers of the nodes in `roster`. `place` tells what a node sees, given the path of its /etc/hosts;
    `directory` holds those."""

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
    ) -> None:
        self.roster = roster
        self.now: dict[str, ContainerNode] = {}
        self._daemon, self._objects, self._image, self._cwd = daemon, objects, image, cwd
        self._door, self._directory, self._place, self._host = door, directory, place, host
        self._network, self._network_name = objects.network()
        self._addresses: dict[str, str] = {}
        self._hidden: set[str] = set()
        self._launches = itertools.count(1)

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
            command=["-I", "-S", places.AGENT, self._door.path, node],
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
        agent = AgentLine(node, line)
        self._addresses[node] = address
        self.now[node] = ContainerNode(
            node, container, agent, address, about["State"]["Pid"], agent.ask("network")
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

    # Launches.

    def make_ready(self, requests: Mapping[str, Mapping[str, Any]]) -> None:
        """Have nodes, all at a time, do what takes long before they can `launch`: `requests` has theirs by node."""
        asked = [self.now[node].agent for node in requests]
        for agent, request in zip(asked, requests.values(), strict=True):
            with suppress(AgentGone):
                agent.send("make_ready", **request)
        for agent in asked:
            with suppress(AgentGone, CannotWarm, UsageError):  # `launch` meets it again, and says it
                agent.answer(START_LIMIT)

    def launch(self, node: str, request: Mapping[str, Any], *, demanded: bool) -> ContainerLaunch:
        """Start a command on a node: `request` is that of `Agent.start`. Raises CannotWarm, UsageError."""
        try:
            return self._launch(self.now[node], request)
        except CannotWarm as error:
            if demanded:
                raise
            cold = {**request["mode"], "warm": False}
            return self._launch(self.now[node], {**request, "mode": cold}, how=f"cold: {error}")

    def _launch(self, node: ContainerNode, request: Mapping[str, Any], how: str | None = None) -> ContainerLaunch:
        number = next(self._launches)
        node.agent.send("start", **request, number=number)
        said = node.agent.answer(START_LIMIT)
        line = self._door.take({"keeper": number}, limit=_UP_LIMIT, alive=lambda: None)
        return ContainerLaunch(
            WaitingKeeper(said["keeper"], said["order"], how=how or said["how"]),
            line,
            terminate=lambda process: self.signal(node, process, signal.SIGTERM),
            is_up=lambda: not node.agent.is_gone,
            wake=lambda: self.thaw(node.name) if self.now.get(node.name) is node else None,
        )

    def signal(self, node: ContainerNode, process: Process, signum: int) -> bool:
        """Send a signal to a process of a node. Raises LookupError while its container is paused."""
        if node.is_frozen:
            raise LookupError(f"{node.name} is paused: no signal reaches it")
        try:
            return bool(node.agent.ask("signal", pid=process.pid, started=process.started, signum=signum))
        except AgentGone:
            return False

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
            write_names(self._names(node), [lines[node]] if node in self._hidden else list(lines.values()))
