"""`OnMachine`: the capabilities that an environment has because its ranks and files are those of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from chaoskit.capabilities import LIMITS, Activity, CanSkewClock, ProcessRef
from chaoskit.environments.cgroups.available import why_no_limits
from chaoskit.environments.environment import EnvironmentEvent
from chaoskit.environments.fusefs.storage import trial as storage_trial
from chaoskit.environments.launch.multi_node_launch import MultiNodeLaunch
from chaoskit.environments.machine import activity, process_clocks, processes, stacks
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.machine.run_files import RunStorage
from chaoskit.environments.records import ranks
from chaoskit.environments.records.ranks import Incarnation, Rank
from chaoskit.job import Job
from chaoskit.probe.session import STACK_SIGNAL


class OnMachine(RunStorage):
    """Fulfils `CanSignal`, `CanShowActivity`, `CanShowDirectory` and `CanServeMetadata` for the processes of one `run`,
    what `RunStorage` does for its files, and what of `Environment` needs no more than that."""

    @staticmethod
    def storage_available() -> str | None:
        """None if a run may have a storage of ours, else the reason and the remedy."""
        return storage_trial()

    @staticmethod
    def lacks(capability: type, job: Job | None) -> str | None:
        """See `EnvironmentType`: limits of resources need control groups, and wrong clocks a kernel that lets us."""
        if capability is CanSkewClock:
            return process_clocks.why_not()
        return why_no_limits([LIMITS[capability]]) if capability in LIMITS else None

    @staticmethod
    def rests_on(job: Job) -> Mapping[str, Any]:
        """Nothing but what is on this machine."""
        return {}

    @staticmethod
    def sweep(root: Path) -> tuple[str, ...]:
        """See `EnvironmentType`: files and processes are all that it makes."""
        return ()

    @staticmethod
    def path_here(job: Job, path: str) -> str | None:
        """See `EnvironmentType`."""
        return path

    def serves_metadata(self) -> bool:
        """See `CanServeMetadata`."""
        return self.run.metadata is not None

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`. Raises ChaoskitError where the job is no longer kept, or its storage is gone."""
        return self.run.wait(timeout)

    def stacks(self) -> dict[int, str]:
        """See `Environment`; takes up to 2 seconds."""
        run = self.run
        known = list(ranks.seen(run.run_dir, launch=run.index).values())
        if not known and run.launch is not None:
            # A plain process that hangs before its first step has not said yet that it is rank 0.
            process = run.launch.process
            node = next(iter(run.launch.agents), "") if isinstance(run.launch, MultiNodeLaunch) else ""
            known = [Rank(0, process.pid, process.started, run.index, 0, 0.0, STACK_SIGNAL, node)]
        return stacks.collect(run.run_dir, known)

    def activity(self) -> Activity:
        """See `CanShowActivity`."""
        run = self.run
        launchers: Sequence[ProcessRef] = ()
        with suppress(LookupError):
            launchers = self.launcher_processes()
        known = ranks.seen(run.run_dir, launch=run.index).values()
        return activity.measure(run.spec.run_id, run.run_dir, known, [Process.of(each) for each in launchers])

    def rank_process(self, rank: int) -> ProcessRef:
        """See `CanSignal`."""
        lives: list[tuple[Incarnation, ProcessRef]] = []
        greeted = self.gate.newest(rank) if self.gate is not None else None
        if greeted is not None:
            lives.append(greeted)
        told = ranks.seen(self.run.run_dir, launch=self.run.index).get(rank)
        if told is not None:
            lives.append((told.incarnation, Process(told.pid, told.start).ref))
        current = [life for life in lives if life[0][0] == self.run.index]
        if not current:
            raise LookupError(f"rank {rank} has not come up yet")
        process = max(current, key=lambda life: life[0])[1]
        if self.state(process) == "gone":
            raise LookupError(f"rank {rank} is gone")
        return process

    def launcher_processes(self) -> Sequence[ProcessRef]:
        """See `CanSignal`."""
        launch = self.run.launch
        if launch is None or processes.state(launch.process) == "gone":
            raise LookupError("the job's command is not running")
        return [launch.process.ref]

    def signal(self, process: ProcessRef, signum: int) -> bool:
        """See `CanSignal`."""
        return processes.send(Process.of(process), signum)

    def state(self, process: ProcessRef) -> Literal["running", "stopped", "gone"]:
        """See `CanSignal`."""
        return processes.state(Process.of(process))

    def delivered(self, process: ProcessRef, signum: int) -> bool:
        """See `CanSignal`."""
        return processes.delivered(Process.of(process), signum)

    def show(self, directory: Path) -> None:
        """See `CanShowDirectory`."""
        self.run.show(directory)
