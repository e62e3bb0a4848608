"""`NetnsEnvironment`: the nodes of a job are virtual hosts of this machine, each with a network of its own.

Every node runs the job's command in namespaces of its own; torchrun learns from environment variables (PET_*) where the
others are, so that a flag on the user's command line still wins. The storage of the job is one file system that all
hosts have mounted, as over NFS; it knows which host a request comes from.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaoskit.capabilities import ProcessRef
from chaoskit.environments.environment import EnvironmentEvent, ExtraEvent, RunSpec
from chaoskit.environments.launch.job_environment import RENDEZVOUS_PORT, node_environment
from chaoskit.environments.launch.launcher import Launch, Launcher
from chaoskit.environments.launch.multi_node_launch import MultiNodeLaunch
from chaoskit.environments.machine import requirements
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.on_machine import OnMachine
from chaoskit.environments.netns.client import NetnsClient, trial
from chaoskit.environments.netns.hosts import MOST_HOSTS
from chaoskit.environments.netns.node_faults import NodeFaults
from chaoskit.environments.netns.virtual_nodes import VirtualNodes
from chaoskit.environments.registry import register_environment
from chaoskit.environments.traits import EnvironmentTraits
from chaoskit.errors import TooFewNodes, UsageError


class NetnsEnvironment(OnMachine, NodeFaults):
    """Runs a job on virtual hosts; fulfils `Environment`, the capabilities of `OnMachine`, since ranks and files are
    this machine's, and `CanPartition`, `CanDegrade`, `CanHideNames` and `CanLoseNodes`."""

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
        NodeFaults.__init__(self)
        if spec.nodes.most > MOST_HOSTS:
            raise UsageError(
                f"nnodes: {spec.nodes.most} virtual hosts are more than the {MOST_HOSTS} that can be had"
            )
        self._hosts: VirtualNodes | None = None
        self._within: dict[str, str] = {}
        self._told: list[ExtraEvent] = []
        self._command: Sequence[str] = ()
        self._meeting = ""

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
            self._hosts = VirtualNodes(client, run.tmp)
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
        run, hosts, nodes = self.run, self.hosts, self.run.spec.nodes
        run.close_launch()
        self._command = command
        while hosts.away:  # a scheduler starts a job once it has the nodes
            time.sleep(max(0.0, hosts.away[0].at - time.monotonic()))
            self._bring_back()
        if len(hosts.up) < nodes.least:
            run.index = index
            raise TooFewNodes(f"the job needs {nodes.least} nodes, and {len(hosts.up)} are left")
        self._meeting = hosts.up[0]
        chosen = hosts.up[: nodes.most]
        return run.start(index, lambda: MultiNodeLaunch(chosen, start=self._start_agent, tell=self._tell))

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`."""
        return self.run.wait(timeout, news=self._news, patience=self._patience)

    def stop(self) -> tuple[Any, ...]:
        """See `Environment`."""
        self.hosts.away.clear()
        return OnMachine.stop(self)

    def launcher_processes(self) -> Sequence[ProcessRef]:
        """See `CanSignal`."""
        launch = self.running
        if launch is None or not launch.agents:
            raise LookupError("the job's command is not running")
        return [agent.ref for agent in launch.agents.values()]

    def show(self, directory: Path) -> None:
        """See `CanShowDirectory`."""
        self.run.show(directory, within=self._within)
        for node in self.hosts.up:
            self.introduce(node)

    def _start_agent(self, node: str) -> Launch:
        run = self.run
        order = run.order(self._command, host=self.hosts.host(node))
        own = node_environment(
            run.spec,
            node=node,
            run_dir=run.run_dir,
            launch=run.index,
            tmp=self.hosts.scratch(node),
            meeting=f"{self._meeting}:{RENDEZVOUS_PORT}",
        )
        return run.launcher.start(replace(order, env={**order.env, **own}))

    def _news(self) -> list[EnvironmentEvent]:
        launch, away = self.running, self.hosts.away
        if launch is not None and not launch.is_failing and launch.agents:
            while away and away[0].at <= time.monotonic() and not launch.is_failing:
                if self.run.spec.nodes.restarts_job:
                    launch.fail()
                elif (back := self._bring_back()) is not None:
                    launch.join(back)
        happened = self.run.happened()
        told, self._told = self._told, []
        return [*told, *happened]

    def _bring_back(self) -> str | None:
        back = self.hosts.bring_back()
        if back is not None:
            self.introduce(back)
        return back

    def _patience(self) -> float:
        launch, away = self.running, self.hosts.away
        if launch is None:
            return math.inf
        due = away[0].at - time.monotonic() if away and not launch.is_failing else math.inf
        return max(0.0, min(launch.patience, due))

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        self._told.append(ExtraEvent(kind, {"launch": self.run.index, **data}))


register_environment(NetnsEnvironment)
