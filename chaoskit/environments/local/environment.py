"""`LocalEnvironment`: the ranks are processes of this machine, all on one node."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace

from chaoskit.environments.cgroups.limits import ResourceLimits
from chaoskit.environments.environment import EnvironmentEvent, RunSpec
from chaoskit.environments.launch.launcher import Launcher
from chaoskit.environments.launch.order import Order
from chaoskit.environments.machine import processes, requirements
from chaoskit.environments.machine.clock_faults import ClockFaults
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.on_machine import OnMachine
from chaoskit.environments.machine.preemptions import Preemptions
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.metadata.variables import variables
from chaoskit.environments.records import ranks
from chaoskit.environments.registry import register_environment
from chaoskit.environments.traits import EnvironmentTraits

#: The name of its node.
NODE = "node0"


class LocalEnvironment(OnMachine, ResourceLimits, Preemptions, ClockFaults):
    """Runs a job on this machine; fulfils `Environment`, the capabilities of `OnMachine`, `ResourceLimits` and
    `ClockFaults`, and `CanPreempt`: its node is taken away as everything of the job there is killed.

    `launcher` starts the commands (default: as the mode of `spec` says). Entering it raises UsageError where the
    directory of the run, its temporary one, or its storage cannot be used, and for a cloud whose metadata service the
    job could not be told of: the address of clouds is the machine's own here, and stays so.
    """

    traits = EnvironmentTraits(
        name="local",
        summary="processes of this machine",
        needs="Linux 5.3 or newer",
        storage=("", "watched", "recorded"),
        launches_warm=True,
        shares_files=True,
        shares_ports=True,
    )

    def __init__(self, spec: RunSpec, launcher: Launcher | None = None) -> None:
        OnMachine.__init__(self, MachineRun(spec, launcher))
        ResourceLimits.__init__(self)
        ClockFaults.__init__(self)
        Preemptions.__init__(self)
        #: What tells the job where its metadata service is.
        self._told: dict[str, str] = {}

    @staticmethod
    def available() -> str | None:
        """None if this machine can run it, else the reason and the remedy."""
        return requirements.why_not()

    def __enter__(self) -> LocalEnvironment:
        self.run.begin()
        try:
            self._serve_metadata()
            self.run.mount()
            self.run.own_processes()
        except BaseException:
            self.run.end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.run.end()

    def launch(self, index: int, command: Sequence[str]) -> str:
        """Start the command as launch number `index`, and say how; raises UsageError if it cannot be started.

        What might still run of the launch before is ended.
        """
        return self.run.start(index, lambda: self.run.launcher.start(self._order(command)))

    def _order(self, command: Sequence[str]) -> Order:
        order = self.run.order(command)
        return replace(order, env={**order.env, **self._told}) if self._told else order

    def _serve_metadata(self) -> None:
        metadata = self.run.metadata
        if metadata is None:
            return
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        self._told = variables(metadata.cloud, metadata.serve(NODE, listener))

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`."""
        return self.look_at_notices(OnMachine.wait(self, timeout))

    def preemptible(self) -> tuple[str, ...]:
        """See `CanPreempt`."""
        return (NODE,)

    def command_on(self, node: str) -> Process | None:
        """See `Preemptions`."""
        launch = self.run.launch
        if launch is None or self.run.has_ended or processes.state(launch.process) == "gone":
            return None
        return launch.process

    def ranks_on(self, node: str) -> Mapping[int, Process]:
        """See `Preemptions`."""
        known = ranks.seen(self.run.run_dir, launch=self.run.index).values()
        found = {each.rank: Process(each.pid, each.start) for each in known}
        return {rank: process for rank, process in found.items() if processes.state(process) != "gone"}

    def take_node(self, node: str) -> None:
        """See `Preemptions`. The machine stays: a fresh node looks the same."""
        if self.run.launch is not None and not self.run.has_ended:
            self.run.launch.stop()

    def limited_node(self, number: int) -> str:
        """See `ResourceLimits`."""
        if number not in (0, -1):
            raise LookupError(f"there is no node {number}: its node is 0")
        return NODE

    def node_of(self, rank: int) -> str:
        """See `ResourceLimits`."""
        return NODE

    def nodes_meant(self, node: int | None) -> tuple[str, ...]:
        """See `ClockFaults`."""
        return (self.limited_node(node or 0),)

    def processes_on(self, node: str) -> Sequence[Process]:
        """See `ClockFaults`."""
        return processes.marked(self.run.spec.run_id, run_dir=self.run.run_dir)


register_environment(LocalEnvironment)
