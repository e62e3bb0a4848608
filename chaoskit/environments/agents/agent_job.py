"""`AgentJob`: the launches of a job on nodes with agents, and who owns the files that it writes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaoskit.environments.agents.file_owners import FileOwners
from chaoskit.environments.agents.image_facts import ImageFacts
from chaoskit.environments.agents.node_processes import NodeProcesses
from chaoskit.environments.environment import EnvironmentEvent
from chaoskit.environments.launch.job_environment import RENDEZVOUS_PORT, node_environment
from chaoskit.environments.launch.launcher import NodeLaunch
from chaoskit.environments.machine.job_on_nodes import JobOnNodes
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.errors import UsageError


class AgentJob(NodeProcesses):
    """`launch` and `wait` of `Environment`, and of `NodeMaker` what does not make a node, for an environment with this
    `run`. The command starts in the directory `_cwd` of each node."""

    run: MachineRun
    job: JobOnNodes
    _cwd: str
    _owners: FileOwners | None

    @property
    def owners(self) -> FileOwners:
        """Who owns the files of the run."""
        assert self._owners is not None, "the environment has not been entered"
        return self._owners

    def bring_up(self, node: str | None = None) -> str:
        """See `NodeMaker`."""
        raise NotImplementedError

    def meeting_host(self) -> str:
        """The name by which all nodes know the one that hosts the rendezvous."""
        return self.job.meeting

    def variables_of(self, node: str) -> dict[str, str]:
        """Variables for one node alone, which those of the user replace."""
        return {}

    def launch(self, index: int, command: Sequence[str]) -> str:
        """Start the command on every node as launch number `index`, and say how; raises UsageError if it cannot be
        started, TooFewNodes if there are fewer nodes than the job needs and none will come. A node that has ended,
        whoever ended it, is replaced by a fresh one."""
        self.run.close_launch()
        for node in list(self.job.roster.up):
            if self.agents.now[node].agent.is_gone:
                self.job.roster.up.remove(node)
                self.bring_up(node)
        self.owners.give()
        return self.job.launch(index, command)

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`. Raises ChaoskitError where a node cannot be reached, the job's storage or a keeper is
        gone."""
        return self.job.wait(timeout)

    def make_ready(self, nodes: Sequence[str]) -> None:
        """See `NodeMaker`: a fresh node has yet to import torch."""
        self.agents.make_ready({node: self._request(node) for node in nodes})

    def start_agent(self, node: str) -> NodeLaunch:
        """See `NodeMaker`."""
        return self.agents.launch(node, self._request(node), demanded=self.run.mode.demanded)

    def check_first_node(self, facts: ImageFacts, *, remedy: str) -> None:
        """Raises UsageError if the user of the image cannot write where the job must."""
        agent = self.agents.now[self.job.roster.up[0]].agent
        if refused := agent.ask("unwritable", paths=[str(part) for part in self.owners.parts]):
            raise UsageError(
                f"the user of the image {facts.name!r} (uid {facts.uid}) cannot write to {refused[0]}: {remedy}"
            )

    def hand_over(self, parts: list[str]) -> None:
        """See `FileOwners`."""
        for node in self.agents.now.values():
            if not node.is_frozen and not node.agent.is_gone:
                node.agent.ask("hand_over", paths=parts)
                return

    def _request(self, node: str) -> dict[str, Any]:
        """What the agent of a node needs for the current launch."""
        run, spec = self.run, self.run.spec
        own = node_environment(
            spec,
            node=node,
            run_dir=run.run_dir,
            launch=run.index,
            tmp=None,
            meeting=f"{self.meeting_host()}:{RENDEZVOUS_PORT}",
        )
        more = {name: spec.env.get(name, value) for name, value in self.variables_of(node).items()}
        return {
            "command": list(self.job.command),
            "spec": {
                "run_dir": str(run.run_dir),
                "out": str(spec.out.absolute()),
                "cwd": self._cwd,
                "run_id": spec.run_id,
                "env": dict(spec.env),
                "learning": spec.learning,
            },
            "mode": run.mode.to_json(),
            "launch": run.index,
            "gate": dict(run.gate.door.environment) if run.gate is not None else None,
            "node": {**more, **own},
            "log": str(run.run_dir / "logs" / f"launch-{run.index}.log"),
        }
