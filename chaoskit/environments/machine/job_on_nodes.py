"""`JobOnNodes`: the launches of a job on the nodes of a run, and the scheduler that acts on lost nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Protocol

from chaoskit.environments.environment import EnvironmentEvent, ExtraEvent
from chaoskit.environments.launch.launcher import NodeLaunch
from chaoskit.environments.launch.multi_node_launch import MultiNodeLaunch
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.errors import TooFewNodes
from chaoskit.nodes import NodeLossPolicy


class NodeMaker(Protocol):
    """What an environment does for its nodes."""

    def bring_up(self, node: str | None = None) -> str:
        """Start a node of that name, in place of an older one, or of a new name; returns the name."""
        ...

    def make_ready(self, nodes: Sequence[str]) -> None:
        """Do what takes long on these nodes before `start_agent` can start a command there at once."""
        ...

    def start_agent(self, node: str) -> NodeLaunch:
        """Start the command of the current launch on the node."""
        ...


class JobOnNodes:
    """The job of one `run` on the nodes of `roster`, which `maker` starts. `command` is that of the current launch, and
    `meeting` the node that hosts its rendezvous."""

    def __init__(self, run: MachineRun, roster: NodeRoster, maker: NodeMaker) -> None:
        self.run = run
        self.roster = roster
        self.command: Sequence[str] = ()
        self.meeting = ""
        self._maker = maker
        self._told: list[ExtraEvent] = []

    @property
    def running(self) -> MultiNodeLaunch | None:
        """The launch, until it has ended."""
        launch = self.run.launch
        return launch if isinstance(launch, MultiNodeLaunch) and not self.run.has_ended else None

    def must_run(self, node: str) -> MultiNodeLaunch:
        """The launch; raises LookupError unless it runs on that node."""
        launch = self.running
        if launch is None or node not in launch.agents:
            raise LookupError(f"{node} is not up, or nothing of the job runs there")
        return launch

    def launch(self, index: int, command: Sequence[str]) -> str:
        """See `Environment`. Waits for the nodes that come back."""
        run, roster, nodes = self.run, self.roster, self.run.spec.nodes
        run.close_launch()
        self.command = command
        while roster.away:  # a scheduler starts a job once it has the nodes
            time.sleep(max(0.0, roster.away[0].at - time.monotonic()))
            self._bring_back()
        if len(roster.up) < nodes.least:
            run.index = index
            raise TooFewNodes(f"the job needs {nodes.least} nodes, and {len(roster.up)} are left")
        self.meeting = roster.up[0]
        chosen = roster.up[: nodes.most]
        return run.start(index, lambda: self._begin(chosen))

    def _begin(self, nodes: Sequence[str]) -> MultiNodeLaunch:
        # First all, so that the agents start together: an elastic rendezvous does not wait for a late one.
        self._maker.make_ready(nodes)
        return MultiNodeLaunch(nodes, start=self._maker.start_agent, tell=self._tell)

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`."""
        return self.run.wait(timeout, news=self._news, patience=self._patience)

    def lose(self, node: str, *, replaced: bool) -> str | None:
        """Count the node as lost; the policy of the job decides what follows, unless it is `replaced`. Returns the node
        that will take its place."""
        return self.roster.lose(node, NodeLossPolicy(lost="spare") if replaced else self.run.spec.nodes.node_loss)

    def add_node(self) -> str:
        """See `CanLoseNodes`."""
        launch, up, most = self.running, self.roster.up, self.run.spec.nodes.most
        if launch is None or launch.is_failing:
            raise LookupError("no launch is running that a node could join")
        if len(up) >= most:
            raise LookupError(f"the job runs on {len(up)} nodes, as many as it may")
        # Of the nodes that are not up, one may still be leaving.
        node = self._maker.bring_up(self.roster.free_name(launch.agents))
        if not self._join(launch, node):
            raise LookupError(f"the launch had ended when {node} was up")
        return node

    def remove_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        self.must_run(node).ask_to_end(node, cause="removed")
        self.roster.up.remove(node)

    def _news(self) -> list[EnvironmentEvent]:
        launch, away = self.running, self.roster.away
        if launch is not None and not launch.is_failing and launch.agents:
            while away and away[0].at <= time.monotonic() and not launch.is_failing:
                if self.run.spec.nodes.restarts_job:
                    launch.fail()
                elif (back := self._bring_back()) is not None:
                    self._join(launch, back)
        happened = self.run.happened()
        told, self._told = self._told, []
        return [*told, *happened]

    def _join(self, launch: MultiNodeLaunch, node: str) -> bool:
        """Have a node that has come up join the launch, unless that has ended meanwhile."""
        self._maker.make_ready([node])
        if launch.ended() is not None or launch.is_failing:
            return False
        launch.join(node)
        return True

    def _bring_back(self) -> str | None:
        """Act on the next loss; returns the node that takes the place, or None."""
        away = self.roster.away.pop(0)
        return self._maker.bring_up(away.by) if away.by is not None else None

    def _patience(self) -> float:
        launch, away = self.running, self.roster.away
        if launch is None:
            return math.inf
        due = away[0].at - time.monotonic() if away and not launch.is_failing else math.inf
        return max(0.0, min(launch.patience, due))

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        self._told.append(ExtraEvent(kind, {"launch": self.run.index, **data}))
