"""`SupervisedJob`: the launches of a job whose pods a controller replaces.

A launch goes on as long as the command runs in one of the pods. A pod that the controller makes in the meantime joins
it, as it would without chaoskit. When the command runs nowhere any more, the launch has ended; the next one begins with
the pods that the controller makes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from chaoskit.environments.agents.agent_line import AgentDoor
from chaoskit.environments.environment import EnvironmentEvent, ExtraEvent
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.controlled_pods import ControlledPods
from chaoskit.environments.kubernetes.filled_template import difference, filled
from chaoskit.environments.kubernetes.job_template import JobTemplate
from chaoskit.environments.kubernetes.objects import RunObjects, owned
from chaoskit.environments.kubernetes.pod_additions import PodAdditions
from chaoskit.environments.kubernetes.pod_manifest import NODE_ROLE
from chaoskit.environments.kubernetes.team_jobs.kinds import accepted_job
from chaoskit.environments.launch.multi_node_launch import MultiNodeLaunch
from chaoskit.environments.machine.job_on_nodes import JobOnNodes, NodeMaker
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.errors import SupervisorGaveUp

_LOOK = 0.25
#: Seconds between two events that say that a pod is awaited: that time is the controller's, and no hang of the job.
_SAY_EVERY = 5.0
#: In the directory of a run, how its job differs from the template of the team.
DIFFERENCE = "job-template.diff"


class SupervisedJob(JobOnNodes):
    """See `JobOnNodes`. `make_pods` comes before the first launch."""

    def __init__(self, run: MachineRun, roster: NodeRoster, maker: NodeMaker) -> None:
        super().__init__(run, roster, maker)
        self._made: ControlledPods | None = None
        #: The nodes whose command has ended by itself, and its exit code.
        self._over: list[tuple[str, int]] = []
        self._said = 0.0

    def make_pods(
        self,
        template: JobTemplate,
        made: RunObjects,
        added: PodAdditions,
        *,
        connection: ClusterConnection,
        door: AgentDoor,
        before_end: Callable[[], object],
    ) -> ControlledPods:
        """Make the job of a template, whose controller begins to make its pods, and the file with the difference.
        Raises ClusterError."""
        manifest = filled(template, added, out=self.run.spec.out.absolute())
        job = accepted_job(manifest)
        shown = difference(template, owned(manifest, made.identity, role=NODE_ROLE))
        (self.run.run_dir / DIFFERENCE).write_text(shown)
        self._made = ControlledPods(
            connection, made, door=door, roster=self.roster, job=job, container=template.container["name"],
            before_end=before_end,
        )  # fmt: skip
        made.create(job.api, manifest, role=NODE_ROLE)
        return self._made

    def launch(self, index: int, command: Sequence[str]) -> str:
        """See `Environment`. Waits for the pods of the controller; raises SupervisorGaveUp if it makes none."""
        self.run.close_launch()
        self.run.index = index
        self._let_go()
        self._pods.gather(self._pods.absent)
        return super().launch(index, command)

    def lose(self, node: str, *, replaced: bool) -> str | None:
        """Count the node as lost. The controller replaces its pod."""
        self.roster.up.remove(node)
        return node

    def add_node(self) -> str:
        """Raises LookupError: the number of pods stands in the template."""
        raise LookupError("the job template says how many pods there are, and its controller makes no more")

    def remove_node(self, node: str) -> None:
        """Raises LookupError: the controller would replace the pod."""
        raise LookupError(f"the controller of the job would replace {node}: the job template says how many there are")

    @property
    def _pods(self) -> ControlledPods:
        assert self._made is not None, "the job has not been made"
        return self._made

    def _begin(self, nodes: Sequence[str]) -> MultiNodeLaunch:
        self._maker.make_ready(nodes)
        return MultiNodeLaunch(nodes, start=self._maker.start_agent, tell=self._tell, together=False)

    def _news(self) -> list[EnvironmentEvent]:
        launch = self.running
        if launch is not None:
            for node in self._pods.adopt():
                self._maker.bring_up(node)  # what is done to the node is done to its fresh pod
                if launch.agents and launch.ended() is None:
                    self._join(launch, node)
            if self._pods.absent and time.monotonic() > self._said + _SAY_EVERY:
                self._said = time.monotonic()
                self._wait_for_pods(launch)
        happened = super()._news()
        self._let_go()
        return happened

    def _wait_for_pods(self, launch: MultiNodeLaunch) -> None:
        """Say which pods are awaited. If the controller makes none any more, the launch cannot go on."""
        try:
            awaited = self._pods.awaited()
        except SupervisorGaveUp:
            launch.stop()
            return
        if awaited:
            self._told.append(ExtraEvent("node.awaited", {"launch": self.run.index, "nodes": awaited}))

    def _let_go(self) -> None:
        """Let the containers end whose command has."""
        while self._over:
            self._pods.finish(*self._over.pop(0))

    def _patience(self) -> float:
        return min(super()._patience(), _LOOK)

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        super()._tell(kind, data)
        if kind == "node.end" and data["cause"] in ("itself", "evicted"):
            self._over.append((data["node"], data["code"]))
