"""`LocalEnvironment`: the ranks are processes of this machine, all on one node."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.environments.cgroups.limits import ResourceLimits
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.launch.launcher import Launcher
from chaoskit.environments.machine import processes, requirements
from chaoskit.environments.machine.clock_faults import ClockFaults
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.on_machine import OnMachine
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.registry import register_environment
from chaoskit.environments.traits import EnvironmentTraits


class LocalEnvironment(OnMachine, ResourceLimits, ClockFaults):
    """Runs a job on this machine; fulfils `Environment` and the capabilities of `OnMachine`, `ResourceLimits` and
    `ClockFaults`.

    `launcher` starts the commands (default: as the mode of `spec` says). Entering it raises UsageError where the
    directory of the run, its temporary one, or its storage cannot be used.
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

    @staticmethod
    def available() -> str | None:
        """None if this machine can run it, else the reason and the remedy."""
        return requirements.why_not()

    def __enter__(self) -> LocalEnvironment:
        self.run.begin()
        try:
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
        return self.run.start(index, lambda: self.run.launcher.start(self.run.order(command)))

    def limited_node(self, number: int) -> str:
        """See `ResourceLimits`."""
        if number not in (0, -1):
            raise LookupError(f"there is no node {number}: its node is 0")
        return "node0"

    def node_of(self, rank: int) -> str:
        """See `ResourceLimits`."""
        return "node0"

    def nodes_meant(self, node: int | None) -> tuple[str, ...]:
        """See `ClockFaults`."""
        return (self.limited_node(node or 0),)

    def processes_on(self, node: str) -> Sequence[Process]:
        """See `ClockFaults`."""
        return processes.marked(self.run.spec.run_id, run_dir=self.run.run_dir)


register_environment(LocalEnvironment)
