"""`ContainerPreemptions`: containers are given notice, and are then taken away."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.environments.agents.agent_line import AgentGone
from chaoskit.environments.agents.node_processes import ref
from chaoskit.environments.docker.container_faults import ContainerFaults
from chaoskit.environments.environment import EnvironmentEvent
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_preemptions import NodePreemptions
from chaoskit.environments.machine.preemptions import Preemption
from chaoskit.environments.machine.processes import Process


class ContainerPreemptions(ContainerFaults, NodePreemptions):
    """Fulfils `CanPreempt`, `CanServeMetadata` and `CanOwnAddress`; the agents in the containers send the signals."""

    run: MachineRun

    def serves_metadata(self) -> bool:
        """See `CanServeMetadata`."""
        return self.run.metadata is not None

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `AgentJob.wait`."""
        return self.look_at_notices(super().wait(timeout))

    def send(self, node: str, process: Process, signum: int) -> None:
        """See `Preemptions`."""
        self.signal(ref(self.agents.now[node], process), signum)

    def has_taken(self, node: str, target: Process, made: Preemption, signum: int) -> bool:
        """See `Preemptions`."""
        return self.delivered(ref(self.agents.now[node], target), signum)

    def started_by(self, node: str, above: Sequence[Process]) -> list[Process]:
        """See `Preemptions`."""
        given = [each.pid for each in above]
        found = self.agents.now[node].agent.ask("started_by", run_id=self.run.spec.run_id, pids=given)
        return [Process(*each) for each in found]

    def end_idle_node(self, node: str) -> None:
        """See `NodePreemptions`."""
        self.network.goes(node)
        self.containers.kill(node)

    def line_of(self, node: str, port: int) -> Sequence[int]:
        """See `RunMetadata`: the agent there knows."""
        found = self.agents.now.get(node)
        if found is None or found.is_frozen:
            return ()
        try:
            pids: list[int] = found.agent.ask("line_of", run_id=self.run.spec.run_id, port=port)
        except AgentGone:
            return ()
        return pids
