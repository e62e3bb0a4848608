"""`AllocatedNodes`: the nodes of a running Slurm job, each with an agent in a step beside the job's own steps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.agents.agent_line import AgentDoor, AgentGone, AgentLine
from chaoskit.environments.agents.agent_nodes import AgentNode, AgentNodes
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.environments.slurm.commands import SlurmCommands
from chaoskit.environments.slurm.queued_job import QueuedJob
from chaoskit.errors import ChaoskitError

AGENT = Path(__file__).with_name("node_agent.py").resolve()
#: The files of agents in the directory of a run.
TOKEN, LOG = "agents.token", "agents.log"
#: Seconds for the agents of a running job to come, and for their step to end.
_UP_LIMIT, _END_LIMIT = 120.0, 15.0
_LAST_WORDS = 300


@dataclass(kw_only=True)
class SlurmNode(AgentNode):
    """One node: also when its machine was started, by its own clock."""

    booted: float


class AllocatedNodes(AgentNodes[SlurmNode]):
    """The nodes of the job that runs now, by their Slurm names. `roster` knows which are up."""

    def __init__(
        self, commands: SlurmCommands, *, door: AgentDoor, roster: NodeRoster, run: str, run_dir: Path
    ) -> None:
        super().__init__(door)
        self._commands, self._roster, self._run, self._run_dir = commands, roster, run, run_dir
        self._step: subprocess.Popen[bytes] | None = None

    def attach(self, job: QueuedJob) -> bool:
        """Bring the agents of a running job up. False if the job has ended meanwhile. Raises ChaoskitError if its nodes
        do not reach chaoskit."""
        self.let_go()
        log = self._run_dir / "logs" / LOG
        begun = log.stat().st_size if log.exists() else 0
        command = [sys.executable, "-I", "-S", str(AGENT), self._door.address, str(self._run_dir / TOKEN)]
        self._step = self._commands.attach(job, run=self._run, command=command, log=log)

        def must_come() -> None:
            now = self._commands.job(job.number)
            if now is None or now.state != "RUNNING" or now.restarts != job.restarts:
                raise _JobIsOver
            if self._step is None or self._step.poll() is not None:
                with log.open("rb") as file:
                    file.seek(begun)
                    said = " ".join(file.read().decode(errors="replace").split())[-_LAST_WORDS:]
                raise ChaoskitError(
                    f"chaoskit's step in job {job.number} of Slurm has ended: {said or 'without a word'}"
                )

        try:
            for node in self._commands.names(job.node_list):
                line = self._door.take({"agent": node}, limit=_UP_LIMIT, alive=must_come)
                agent = AgentLine(
                    line, gone=f"the agent on {node} has ended: was job {job.number} of Slurm ended?"
                )
                mark = f"{job.number}.{job.restarts}.{node}"
                booted = float(agent.ask("booted"))
                self.now[node] = SlurmNode(name=node, mark=mark, agent=agent, address=node, booted=booted)
                self._roster.number(node)
                self._roster.admit(node)
        except (_JobIsOver, AgentGone):
            self.let_go()
            return False
        return True

    def let_go(self) -> None:
        """Let all agents end, and their step with them."""
        for node in self.now.values():
            node.agent.close()
        self.now.clear()
        self._roster.up.clear()
        step, self._step = self._step, None
        if step is not None:
            try:
                step.wait(_END_LIMIT)
            except subprocess.TimeoutExpired:
                step.kill()
                step.wait()

    def ask(self, node: str, request: str, **given: Any) -> Any:
        """The answer of the agent of a node; None if it is not there."""
        return self._answers([node], request, **given).get(node)

    def ask_all(self, request: str, **given: Any) -> dict[str, Any]:
        """The answers of all nodes whose agent is there."""
        return self._answers(list(self.now), request, **given)

    def _answers(self, nodes: Sequence[str], request: str, **given: Any) -> dict[str, Any]:
        found = {}
        for node in nodes:
            with suppress(AgentGone, KeyError):
                found[node] = self.now[node].agent.ask(request, **given)
        return found

    def thaw(self, node: str) -> None:
        """Nothing is ever in the way of an agent: the processes of the job are stopped one by one."""


class _JobIsOver(Exception):
    """The job that the agents are awaited for does not run any more."""
