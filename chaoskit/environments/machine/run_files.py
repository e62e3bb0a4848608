"""`RunFiles` and `RunStorage`: the capabilities that an environment has because the harness sees the files of the job,
and because `{out}` can be a storage of ours."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaoskit.capabilities import InjectedIOError, StoredCheckpoint
from chaoskit.environments.fusefs.storage import Storage
from chaoskit.environments.gate.orders import GateOrders
from chaoskit.environments.gate.server import GateServer
from chaoskit.environments.machine import activity, stored_checkpoints
from chaoskit.environments.machine.checkpoint_paths import checkpoint_paths
from chaoskit.environments.machine.machine_run import MachineRun


class RunFiles(GateOrders):
    """Fulfils `CanOrder`, `CanCorruptNumbers` and `CanTouchFiles`, for one `run` whose `{out}` and records this machine
    has."""

    def __init__(self, run: MachineRun) -> None:
        self.run = run

    @property
    def gate(self) -> GateServer | None:
        """See `GateOrders`."""
        return self.run.gate

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """See `Environment`."""
        return self.run.launch.stop() if self.run.launch is not None else ()

    def said(self) -> int:
        """See `CanShowActivity`."""
        return activity.said(self.run.run_dir)

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


class RunStorage(RunFiles):
    """Fulfils `CanFailStorage` and, but for `show`, `CanShowDirectory`, too."""

    def fail_storage(self, trouble: InjectedIOError) -> int:
        """See `CanFailStorage`."""
        return self._must_store().fail(trouble)

    def mend_storage(self, trouble: int) -> None:
        """See `CanFailStorage`."""
        self._must_store().mend(trouble)

    def storage_met(self, trouble: int) -> Mapping[str, Any]:
        """See `CanFailStorage`."""
        return self._must_store().met(trouble)

    def looked_at(self) -> frozenset[tuple[str, str]]:
        """See `CanShowDirectory`."""
        return self._must_store().seen()

    def hide(self) -> None:
        """See `CanShowDirectory`."""
        self.run.hide()

    def _must_store(self) -> Storage:
        if self.run.storage is None:
            raise LookupError("the job's {out} is a plain directory, and its storage cannot be made to fail")
        return self.run.storage
