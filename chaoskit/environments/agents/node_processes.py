"""`NodeProcesses`: the processes of a job on nodes with agents, of which only these know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, Protocol, cast

from chaoskit.capabilities import Activity, LimitTarget, ProcessRef
from chaoskit.environments.agents.agent_line import AgentGone
from chaoskit.environments.agents.agent_nodes import AgentNode, AgentNodes
from chaoskit.environments.gate.server import GateServer, Identity
from chaoskit.environments.machine import activity
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.records import ranks
from chaoskit.environments.records.ranks import Rank
from chaoskit.probe.session import STACK_SIGNAL


class AgentsOfLaunch(Protocol):
    """A launch on several nodes."""

    @property
    def agents(self) -> Mapping[str, Process]:
        """By node, the process that runs the command there."""
        ...


class JobWithNodes(Protocol):
    """A job that runs on nodes, such as `JobOnNodes`."""

    @property
    def run(self) -> MachineRun: ...

    @property
    def roster(self) -> NodeRoster: ...

    @property
    def running(self) -> AgentsOfLaunch | None:
        """The launch, until it has ended."""
        ...

    def add_node(self) -> str:
        """See `CanLoseNodes`."""
        ...

    def remove_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        ...


class NodeProcesses:
    """Fulfils `CanSignal` and, but for `said`, `CanShowActivity` for an environment with this `job` on nodes with
    `agents`, and `Environment.stacks`; of `CanLoseNodes` it has what does not depend on how a node is lost. A reference
    to a process has the key `MARK/START`: the mark of its node."""

    job: JobWithNodes

    @property
    def gate(self) -> GateServer | None:
        """The gate of the run."""
        raise NotImplementedError

    @property
    def agents(self) -> AgentNodes[Any]:
        """The nodes of the run."""
        raise NotImplementedError

    def identify(self, hello: Mapping[str, Any]) -> Identity | None:
        """The process that has said this hello at the gate, on its node."""
        node = self.agents.now.get(str(hello["node"]))
        if node is None or type(hello["pid"]) is not int or type(hello["start"]) is not int:
            return None
        return Identity(ref(node, Process(hello["pid"], hello["start"])), self.began(hello))

    def began(self, hello: Mapping[str, Any]) -> float:
        """When the process of this hello began, in a way that orders the incarnations of its rank. All containers count
        it from the boot of the one kernel."""
        return float(hello["start"])

    def rank_process(self, rank: int) -> ProcessRef:
        """See `CanSignal`."""
        index = self.job.run.index
        greeted = self.gate.newest(rank) if self.gate is not None else None
        lives = [greeted] if greeted is not None and greeted[0][0] == index else []
        told = ranks.seen(self.job.run.run_dir, launch=index).get(rank)
        if told is not None and told.node in self.agents.now:
            lives.append((told.incarnation, ref(self.agents.now[told.node], Process(told.pid, told.start))))
        if not lives:
            raise LookupError(f"rank {rank} has not come up yet")
        process = max(lives, key=lambda life: life[0])[1]
        if self.state(process) == "gone":
            raise LookupError(f"rank {rank} is gone")
        return process

    def launcher_processes(self) -> Sequence[ProcessRef]:
        """See `CanSignal`."""
        launch = self.job.running
        agents = launch.agents if launch is not None else {}
        if not agents:
            raise LookupError("the job's command is not running")
        return [ref(self.agents.now[node], process) for node, process in agents.items()]

    def signal(self, process: ProcessRef, signum: int) -> bool:
        """See `CanSignal`. Raises LookupError while the node is paused."""
        node = self._node(process)
        return node is not None and self.agents.signal(node, _inside(process), signum)

    def state(self, process: ProcessRef) -> Literal["running", "stopped", "gone"]:
        """See `CanSignal`. What runs on a paused node is stopped."""
        said = self._ask(process, "state")
        return cast(Literal["running", "stopped", "gone"], said) if said is not None else "gone"

    def delivered(self, process: ProcessRef, signum: int) -> bool:
        """See `CanSignal`."""
        said = self._ask(process, "delivered", signum=signum)
        return said is True or said is None

    def _ask(self, process: ProcessRef, request: str, **given: Any) -> Any:
        """The answer of the agent; None if the node is gone, `stopped` if it is paused."""
        node = self._node(process)
        if node is None:
            return None
        if node.is_frozen:
            return "stopped"
        inside = _inside(process)
        try:
            return node.agent.ask(request, pid=inside.pid, started=inside.started, **given)
        except AgentGone:
            return None

    def activity(self) -> Activity:
        """See `CanShowActivity`: of all nodes together. What is paused does nothing."""
        run, launch = self.job.run, self.job.running
        known = self._known()
        found: list[Mapping[str, Any]] = []
        for node in self._awake():
            agent = launch.agents.get(node.name) if launch is not None else None
            given = {
                "run_id": run.spec.run_id,
                "run_dir": str(run.run_dir),
                "ranks": [asdict(rank) for rank in known if rank.node == node.name],
                "launchers": [[agent.pid, agent.started]] if agent is not None else [],
            }
            try:
                found.append(node.agent.ask("activity", **given))
            except AgentGone:
                continue
        return Activity(
            ranks={int(rank): seconds for each in found for rank, seconds in each["ranks"].items()},
            others=sum(each["others"] for each in found),
            moved=sum(each["moved"] for each in found),
            printed=activity.printed(run.run_dir),
        )

    def stacks(self) -> dict[int, str]:
        """See `Environment`; takes up to 2 seconds for each node."""
        run, launch = self.job.run, self.job.running
        known = self._known()
        if not known and launch is not None:
            # A plain process that hangs before its first step has not said yet that it is rank 0.
            known = [
                Rank(0, process.pid, process.started, run.index, 0, 0.0, STACK_SIGNAL, node)
                for node, process in list(launch.agents.items())[:1]
            ]
        told: dict[int, str] = {}
        for node in self.agents.now.values():
            own = [rank for rank in known if rank.node == node.name]
            if node.is_frozen:
                told |= {rank.rank: "stopped (its node is paused)" for rank in own}
                continue
            try:
                said = node.agent.ask("stacks", run_dir=str(run.run_dir), ranks=[asdict(rank) for rank in own])
            except AgentGone:
                continue
            told |= {int(rank): text for rank, text in said.items()}
        return dict(sorted(told.items()))

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        return tuple(self.job.roster.up)

    def add_node(self) -> str:
        """See `CanLoseNodes`."""
        return self.job.add_node()

    def remove_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        self.job.remove_node(node)

    def ranks_of(self, node: str) -> tuple[int, ...]:
        """See `CanLoseNodes`."""
        return tuple(sorted(self.ranks_on(node)))

    def ranks_on(self, node: str) -> dict[int, Process]:
        """The living ranks on that node, by number, with the pids that they have there."""
        here = self.agents.now.get(node)
        if here is None:
            return {}
        found = {each.rank: Process(each.pid, each.start) for each in self._known() if each.node == node}
        return {rank: process for rank, process in found.items() if self.state(ref(here, process)) != "gone"}

    def node_of_target(self, target: LimitTarget, *, whole: str) -> str:
        """The node that a limit applies to, where `whole` nodes alone can be limited. Raises LookupError if it is not
        up, if the rank is gone, and if further ranks run beside it."""
        if target.rank is None:
            return self.job.roster.at(target.node or 0)
        self.rank_process(target.rank)
        node = next(each for each in self.job.roster.up if target.rank in self.ranks_of(each))
        if len(own := self.ranks_of(node)) > 1:
            raise LookupError(
                f"{whole}, and {node} runs ranks {', '.join(map(str, own))}: limit the node (node=...), or run one "
                "rank on each node"
            )
        return node

    def pids_on(self, node: str) -> list[int]:
        """The job's processes on a node, by the pids that they have there."""
        try:
            pids: list[int] = self.agents.now[node].agent.ask("processes", run_id=self.job.run.spec.run_id)
        except AgentGone:
            return []
        return pids

    def _known(self) -> list[Rank]:
        return list(ranks.seen(self.job.run.run_dir, launch=self.job.run.index).values())

    def _awake(self) -> list[AgentNode]:
        return [node for node in self.agents.now.values() if not node.is_frozen]

    def _node(self, process: ProcessRef) -> AgentNode | None:
        """The node that the process is on; None if that one was replaced."""
        mark = process.key.partition("/")[0]
        return next((node for node in self.agents.now.values() if node.mark == mark), None)


def ref(node: AgentNode, process: Process) -> ProcessRef:
    """The reference to a process of a node."""
    return ProcessRef(process.pid, f"{node.mark}/{process.started}")


def _inside(process: ProcessRef) -> Process:
    return Process(process.pid, int(process.key.partition("/")[2]))
