"""`AgentNodes`: the nodes of one run by name, each with its agent, and the launches that these start."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from chaoskit.environments.agents.agent_launch import AgentLaunch
from chaoskit.environments.agents.agent_line import START_LIMIT, AgentDoor, AgentGone, AgentLine
from chaoskit.environments.launch.launcher import WaitingKeeper
from chaoskit.environments.machine.processes import Process
from chaoskit.errors import CannotWarm, UsageError

#: Seconds for a keeper to connect, on a busy machine.
_UP_LIMIT = 120.0


@dataclass(kw_only=True)
class AgentNode:
    """One node: its name, its agent, and its address. `mark` tells it apart from others of the same name, earlier or
    later. While it is frozen, its agent does not answer."""

    name: str
    mark: str
    agent: AgentLine
    address: str
    is_frozen: bool = False


Node = TypeVar("Node", bound=AgentNode)


class AgentNodes(Generic[Node]):
    """The nodes that are there `now`. Their agents connect at `door`."""

    def __init__(self, door: AgentDoor) -> None:
        self.now: dict[str, Node] = {}
        self._door = door
        self._launches = itertools.count(1)

    def thaw(self, node: str) -> None:
        """Let a frozen node continue."""
        raise NotImplementedError

    def make_ready(self, requests: Mapping[str, Mapping[str, Any]]) -> None:
        """Have nodes, all at a time, do what takes long before they can `launch`: `requests` has theirs by node."""
        asked: list[AgentLine] = []
        for node, request in requests.items():
            with suppress(AgentGone):
                self.now[node].agent.send("make_ready", **request)
                asked.append(self.now[node].agent)
        for agent in asked:
            with suppress(AgentGone, CannotWarm, UsageError):  # `launch` meets it again, and says it
                agent.answer(START_LIMIT)

    def launch(self, node: str, request: Mapping[str, Any], *, demanded: bool) -> AgentLaunch:
        """Start a command on a node: `request` is that of `Agent.start`. Raises CannotWarm, UsageError."""
        try:
            return self._launch(self.now[node], request)
        except CannotWarm as error:
            if demanded:
                raise
            cold = {**request["mode"], "warm": False}
            return self._launch(self.now[node], {**request, "mode": cold}, how=f"cold: {error}")

    def _launch(self, node: Node, request: Mapping[str, Any], how: str | None = None) -> AgentLaunch:
        number = next(self._launches)
        node.agent.send("start", **request, number=number)
        said = node.agent.answer(START_LIMIT)
        line = self._door.take({"keeper": number}, limit=_UP_LIMIT, alive=lambda: None)
        launch = AgentLaunch(
            WaitingKeeper(said["keeper"], said["order"], how=how or said["how"]),
            line,
            terminate=lambda process: self.signal(node, process, signal.SIGTERM),
            is_up=lambda: not node.agent.is_gone,
            wake=lambda: self.thaw(node.name) if self.now.get(node.name) is node else None,
        )
        with suppress(AgentGone):  # whoever waits for the launch learns it
            node.agent.ask("launched", pid=launch.process.pid, started=launch.process.started)
        return launch

    def signal(self, node: Node, process: Process, signum: int) -> bool:
        """Send a signal to a process of a node. Raises LookupError while the node is frozen."""
        if node.is_frozen:
            raise LookupError(f"{node.name} is paused: no signal reaches it")
        try:
            return bool(node.agent.ask("signal", pid=process.pid, started=process.started, signum=signum))
        except AgentGone:
            return False
