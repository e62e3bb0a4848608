"""`OnMachine`: the capabilities that an environment has because its ranks and files are those of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from chaoskit.capabilities import Activity, InjectedIOError, ProcessRef, StoredCheckpoint
from chaoskit.environments.environment import EnvironmentEvent
from chaoskit.environments.fusefs.storage import Storage
from chaoskit.environments.fusefs.storage import trial as storage_trial
from chaoskit.environments.gate.orders import GateOrders
from chaoskit.environments.gate.server import GateServer
from chaoskit.environments.machine import activity, processes, stacks, stored_checkpoints
from chaoskit.environments.machine.checkpoint_paths import checkpoint_paths
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.records import ranks
from chaoskit.environments.records.ranks import Incarnation, Rank
from chaoskit.probe.session import STACK_SIGNAL


class OnMachine(GateOrders):
    """Fulfils `CanSignal`, `CanShowActivity`, `CanOrder`, `CanCorruptNumbers`, `CanTouchFiles`, `CanFailStorage` and
    `CanShowDirectory` for the processes and files of one `run`, and what of `Environment` needs no more than that."""

    def __init__(self, run: MachineRun) -> None:
        self.run = run

    @staticmethod
    def storage_available() -> str | None:
        """None if a run may have a storage of ours, else the reason and the remedy."""
        return storage_trial()

    @property
    def gate(self) -> GateServer | None:
        """See `GateOrders`."""
        return self.run.gate

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`. Raises ChaoskitError where the job is no longer kept, or its storage is gone."""
        return self.run.wait(timeout)

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """See `Environment`."""
        return self.run.launch.stop() if self.run.launch is not None else ()

    def stacks(self) -> dict[int, str]:
        """See `Environment`; takes up to 2 seconds."""
        run = self.run
        known = list(ranks.seen(run.run_dir, launch=run.index).values())
        if not known and run.launch is not None:
            # A plain process that hangs before its first step has not said yet that it is rank 0.
            process = run.launch.process
            known = [Rank(0, process.pid, process.started, run.index, 0, 0.0, STACK_SIGNAL)]
        return stacks.collect(run.run_dir, known)

    def said(self) -> int:
        """See `CanShowActivity`."""
        return activity.said(self.run.run_dir)

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

    def out(self) -> Path:
        """See `CanTouchFiles`."""
        if self.run.storage is not None:
            self.run.storage.settle()
        return self.run.spec.out

    def aside(self) -> Path:
        """See `CanTouchFiles`: `aside-*` in the directory of the run."""
        return Path(tempfile.mkdtemp(prefix="aside-", dir=self.run.run_dir))

    def stored_checkpoints(self) -> tuple[StoredCheckpoint, ...]:
        """See `CanTouchFiles`."""
        return stored_checkpoints.checkpoints(self.run.run_dir, self.run.spec.out)

    def checkpoint_paths(self) -> tuple[str, ...]:
        """See `CanTouchFiles`."""
        return checkpoint_paths(self.run.run_dir, self.run.spec.out)

    def fail_storage(self, trouble: InjectedIOError) -> int:
        """See `CanFailStorage`."""
        return self._must_store().fail(trouble)

    def mend_storage(self, trouble: int) -> None:
        """See `CanFailStorage`."""
        self._must_store().mend(trouble)

    def storage_met(self, trouble: int) -> Mapping[str, Any]:
        """See `CanFailStorage`."""
        return self._must_store().met(trouble)

    def _must_store(self) -> Storage:
        if self.run.storage is None:
            raise LookupError("the job's {out} is a plain directory, and its storage cannot be made to fail")
        return self.run.storage

    def show(self, directory: Path) -> None:
        """See `CanShowDirectory`."""
        self.run.show(directory)

    def looked_at(self) -> frozenset[tuple[str, str]]:
        """See `CanShowDirectory`."""
        return self._must_store().seen()

    def hide(self) -> None:
        """See `CanShowDirectory`."""
        self.run.hide()
