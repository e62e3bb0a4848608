"""`NodeHelpers`: the network helpers of a run: where they may run, how they are started, and how long they live."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chaoskit.environments.agents.agent_line import AgentDoor, AgentLine
from chaoskit.environments.docker.container_nodes import ContainerNode, ContainerNodes, gone
from chaoskit.environments.docker.daemon import Daemon
from chaoskit.environments.docker.host_paths import HostPaths, host_paths
from chaoskit.environments.docker.objects import Objects
from chaoskit.environments.docker.places import HOME, Place, as_mounts, own_places
from chaoskit.environments.machine.helper_process import HelperProcess
from chaoskit.environments.netns.network import PACKAGES, missing
from chaoskit.errors import ChaoskitError, MissingCapability

_SCRIPT = Path(__file__).with_name("network_helper.py")
#: Seconds for a helper container to start, on a busy machine.
_UP_LIMIT = 120.0
#: To change the network of a container, and to send and receive its frames, which any container may.
_CAPABILITIES = ("NET_ADMIN", "NET_RAW")


class Helper(Protocol):
    """A network helper, wherever it runs."""

    def ask(self, request: str, **given: Any) -> Any: ...
    def close(self) -> None: ...


def why_not_here(tool: str) -> str | None:
    """None if the harness itself may enter the networks of containers and this machine has that tool, else the reason
    and the remedy."""
    if os.geteuid() != 0 or host_paths().container:
        return (
            "only root of the machine may enter the network of a container: run chaoskit there as root, or give "
            "--helper-image IMAGE"
        )
    package = PACKAGES[tool]
    return (
        f"it needs {tool}: apt-get install {package}, or give --helper-image IMAGE"
        if package in missing()
        else None
    )


def enter(run_id: str, node: ContainerNode) -> Helper:
    """A helper in the network namespace of a container, started by root on this machine. Raises ChaoskitError."""
    return HelperProcess(_SCRIPT, run_id, f"/proc/{node.pid}/ns/net", called=f"the network helper of {node.name}")


def join(
    daemon: Daemon,
    objects: Objects,
    door: AgentDoor,
    image: str,
    node: ContainerNode,
    *,
    host: HostPaths,
    store: Path | None,
) -> Helper:
    """A helper in a container of its own that has joined the network of a node, with `_CAPABILITIES` and no
    other privilege. Raises MissingCapability where the daemon forbids that, or the image lacks what it needs."""
    directory = os.path.dirname(door.address.removeprefix("unix:"))
    run_dir = Place(directory, directory, read_only=True)
    script = f"{HOME}/chaoskit/environments/docker/{_SCRIPT.name}"
    container = ""
    try:
        with daemon.doing("describe a network helper") as client:
            config = client.create_host_config(
                mounts=as_mounts([*own_places(host, store), run_dir], host),
                network_mode=f"container:{node.container}",
                cap_drop=["ALL"],
                cap_add=list(_CAPABILITIES),
            )
        words = ["-I", "-S", script, door.address, node.name]
        container = objects.container(
            f"{node.name}-network",
            image=image,
            entrypoint=["python3"],
            command=words,
            user="0",
            host_config=config,
        )
        with daemon.doing("start a network helper") as client:
            client.start(container)
        line = door.take({"helper": node.name}, limit=_UP_LIMIT, alive=lambda: _must_run(daemon, container))
    except ChaoskitError as error:
        if container:
            objects.remove(container)
        message = f"a network helper of the image {image!r} cannot be used: {error}"
        remedy = "run chaoskit as root, or give a --helper-image with Python 3.11, nft and ip"
        raise MissingCapability(message, capability="CanPartition", remedy=remedy) from error
    return _JoinedHelper(AgentLine(line, gone=gone(f"the network helper of {node.name}")), objects, container)


@dataclass(frozen=True)
class _JoinedHelper:
    line: AgentLine
    objects: Objects
    container: str

    def ask(self, request: str, **given: Any) -> Any:
        return self.line.ask(request, **given)

    def close(self) -> None:
        self.line.close()
        self.objects.remove(self.container)


def _must_run(daemon: Daemon, container: str) -> None:
    with daemon.doing("look at a network helper") as client:
        if client.inspect_container(container)["State"]["Running"]:
            return
        said = client.logs(container, tail=3).decode(errors="replace")
    raise ChaoskitError(f"it has ended at once: {' '.join(said.split())}")


@dataclass
class _Running:
    """The helper of a `container`, and what still needs it."""

    container: str
    helper: Helper
    uses: set[Hashable] = field(default_factory=set)


class NodeHelpers:
    """The helpers of one run, one for each container that needs one. `start` starts a helper; it ends with its last
    use."""

    def __init__(self, containers: ContainerNodes, start: Callable[[ContainerNode], Helper]) -> None:
        self._containers = containers
        self._start = start
        self._running: dict[str, _Running] = {}

    def take(self, node: str, use: Hashable) -> Helper:
        """The helper of the container that a node has now, for this use. Raises ChaoskitError."""
        if self.of(node) is None:
            self.drop(node)
            found = self._containers.now[node]
            self._running[node] = _Running(found.container, self._start(found))
        self._running[node].uses.add(use)
        return self._running[node].helper

    def of(self, node: str) -> Helper | None:
        """The helper in the network of the container that a node has now, if there is one."""
        now, running = self._containers.now.get(node), self._running.get(node)
        return running.helper if now and running and running.container == now.container else None

    def leave(self, node: str, use: Hashable) -> None:
        """End this use."""
        running = self._running.get(node)
        if running is not None:
            running.uses.discard(use)
            if not running.uses:
                self.drop(node)

    def drop(self, node: str) -> None:
        """End the helper of a node, whoever uses it."""
        if node in self._running:
            self._running.pop(node).helper.close()

    def close(self) -> None:
        """End all of them; what they have done ends with the containers."""
        for node in list(self._running):
            self.drop(node)
