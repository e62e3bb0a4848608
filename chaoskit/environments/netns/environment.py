"""`NetnsEnvironment`: the nodes of a job are virtual hosts of this machine, each with a network of its own.

Every node runs the job's command in namespaces of its own; torchrun learns from environment variables (PET_*) where the
others are, so that a flag on the user's command line still wins. The storage of the job is one file system that all
hosts have mounted, as over NFS; it knows which host a request comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaoskit.capabilities import ProcessRef
from chaoskit.environments.cgroups.limits import ResourceLimits
from chaoskit.environments.environment import EnvironmentEvent, RunSpec
from chaoskit.environments.launch.job_environment import RENDEZVOUS_PORT, node_environment
from chaoskit.environments.launch.launcher import Launcher, NodeLaunch
from chaoskit.environments.machine import requirements
from chaoskit.environments.machine.clock_faults import ClockFaults
from chaoskit.environments.machine.job_on_nodes import JobOnNodes
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_preemptions import NodePreemptions
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.environments.machine.on_machine import OnMachine
from chaoskit.environments.netns.client import NetnsClient, trial
from chaoskit.environments.netns.hosts import MOST_HOSTS
from chaoskit.environments.netns.node_faults import NodeFaults
from chaoskit.environments.netns.virtual_nodes import VirtualNodes
from chaoskit.environments.registry import register_environment
from chaoskit.environments.traits import EnvironmentTraits
from chaoskit.errors import UsageError


class NetnsEnvironment(OnMachine, NodeFaults, NodePreemptions, ResourceLimits, ClockFaults):
    """Runs a job on virtual hosts; fulfils `Environment`, the capabilities of `OnMachine`, `ResourceLimits` and
    `ClockFaults`, since ranks and files are this machine's, and `CanPartition`, `CanDegrade`, `CanHideNames`,
    `CanLoseNodes`, `CanPreempt` and `CanOwnAddress`."""

    traits = EnvironmentTraits(
        name="netns",
        summary="virtual hosts of this machine, each with a network of its own",
        needs="Linux 5.3 or newer, network namespaces, ip and nft",
        nodes_most=MOST_HOSTS,
        storage=("", "watched", "recorded"),
        storage_per_node=True,
        launches_warm=True,
        shares_files=True,
    )

    def __init__(self, spec: RunSpec, launcher: Launcher | None = None) -> None:
        OnMachine.__init__(self, MachineRun(spec, launcher))
        NodeFaults.__init__(self, JobOnNodes(self.run, NodeRoster(MOST_HOSTS), self))
        ResourceLimits.__init__(self)
        ClockFaults.__init__(self)
        NodePreemptions.__init__(self)
        if spec.nodes.most > MOST_HOSTS:
            raise UsageError(
                f"nnodes: {spec.nodes.most} virtual hosts are more than the {MOST_HOSTS} that can be had"
            )
        self._hosts: VirtualNodes | None = None
        self._within: dict[str, str] = {}

    @staticmethod
    def available() -> str | None:
        """None if this machine can run it, else the reason and the remedy."""
        return requirements.why_not() or trial()

    @property
    def hosts(self) -> VirtualNodes:
        """See `NetworkFaults`."""
        assert self._hosts is not None, "the environment has not been entered"
        return self._hosts

    def __enter__(self) -> NetnsEnvironment:
        run = self.run
        run.begin()
        try:
            client = NetnsClient(run.spec.run_id)
            run.keep(client.close)
            self._hosts = VirtualNodes(client, run.tmp, self.job.roster, metadata=run.metadata)
            self._within = client.within
            run.mount(within=self._within)
            for _ in range(run.spec.nodes.most):
                self.bring_up()
            run.own_processes()
        except BaseException:
            run.end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.run.end()

    def launch(self, index: int, command: Sequence[str]) -> str:
        """Start the command on every node as launch number `index`, and say how; raises UsageError if it cannot be
        started, TooFewNodes if there are fewer than the job needs and none will come."""
        return self.job.launch(index, command)

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`."""
        return self.look_at_notices(self.job.wait(timeout))

    def stop(self) -> tuple[Any, ...]:
        """See `Environment`."""
        self.job.roster.away.clear()
        return OnMachine.stop(self)

    def launcher_processes(self) -> Sequence[ProcessRef]:
        """See `CanSignal`."""
        launch = self.job.running
        if launch is None or not launch.agents:
            raise LookupError("the job's command is not running")
        return [agent.ref for agent in launch.agents.values()]

    def show(self, directory: Path) -> None:
        """See `CanShowDirectory`."""
        self.run.show(directory, within=self._within)
        for node in self.job.roster.up:
            self.introduce(node)

    def limited_node(self, number: int) -> str:
        """See `ResourceLimits`."""
        return self.job.roster.at(number)

    def nodes_meant(self, node: int | None) -> tuple[str, ...]:
        """See `ClockFaults`."""
        return tuple(self.job.roster.up) if node is None else (self.limited_node(node),)

    def make_ready(self, nodes: Sequence[str]) -> None:
        """See `NodeMaker`. Whatever is forked on a node comes from this machine, where it is shared by all."""

    def start_agent(self, node: str) -> NodeLaunch:
        """See `NodeMaker`."""
        run, job = self.run, self.job
        order = run.order(job.command, node=node, host=self.hosts.host(node))
        own = node_environment(
            run.spec,
            node=node,
            run_dir=run.run_dir,
            launch=run.index,
            tmp=self.hosts.scratch(node),
            meeting=f"{job.meeting}:{RENDEZVOUS_PORT}",
        )
        return run.launcher.start(replace(order, env={**order.env, **own}))


register_environment(NetnsEnvironment)
