"""`BatchLaunch`: one launch as Slurm runs it: a job from its start until it has ended or is back in the queue."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from chaoskit.environments.launch.launcher import LaunchEnd
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.slurm.allocated_nodes import AllocatedNodes
from chaoskit.environments.slurm.commands import SlurmCommands
from chaoskit.environments.slurm.queued_job import QueuedJob
from chaoskit.environments.slurm.slurm_error import SlurmError
from chaoskit.errors import ChaoskitError

#: Seconds between two looks at the queue, and for a cancelled job to be gone: KillWait is 30 s by default.
LOOK, END_LIMIT = 0.5, 180.0
#: Seconds for which Slurm's controller may not answer while a job runs.
OUTAGE = 120.0


class BatchLaunch:
    """A `Launch` of a job that has started; `job` is how Slurm showed it last."""

    how = "cold"

    def __init__(self, commands: SlurmCommands, job: QueuedJob, nodes: AllocatedNodes, *, run: str) -> None:
        self.job = job
        self._commands, self._nodes, self._run = commands, nodes, run
        self._restarts = job.restarts
        self._end: LaunchEnd | None = None
        self._next, self._answered = 0.0, time.monotonic()
        # Nothing of Slurm can be waited for: this descriptor is never readable.
        self._never = os.eventfd(0)

    @property
    def was_requeued(self) -> bool:
        """Whether it has ended because Slurm put it back into the queue."""
        return self._end is not None and self._end.requeued

    @property
    def has_ended(self) -> bool:
        """Whether it is known to have ended; asks nobody."""
        return self._end is not None

    @property
    def process(self) -> Process:
        """Raises LookupError: of a job that does not run, Slurm tells no process."""
        return next(iter(self.agents.values()))

    @property
    def agents(self) -> Mapping[str, Process]:
        """By node, the process that runs the command there: the newest of those that Slurm has started."""
        found = self._nodes.ask_all("launchers", run_id=self._run)
        return {node: Process(*launchers[-1]) for node, launchers in found.items() if launchers}

    def fileno(self) -> int:
        """See `Launch.fileno`."""
        return self._never

    def ended(self) -> LaunchEnd | None:
        """See `Launch.ended`. Raises ChaoskitError if Slurm does not know the job any more, or does not answer for
        long: the job goes on while its controller is started again."""
        if self._end is None and time.monotonic() >= self._next:
            try:
                self._look()
                self._answered = time.monotonic()
            except SlurmError:
                if time.monotonic() > self._answered + OUTAGE:
                    raise
            self._next = time.monotonic() + LOOK
        return self._end

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """See `Launch.stop`: cancels the job, and kills all that runs of it, which Slurm would first ask to end."""
        self._look()
        if self._end is not None:
            return ()
        # Some of them end by Slurm's SIGTERM before they can be killed.
        found = self._nodes.ask_all("processes", run_id=self._run)
        self._commands.do("cancel", self.job, run=self._run)
        for node, pids in self._nodes.ask_all("end", run_id=self._run).items():
            found[node] = sorted({*found.get(node, ()), *pids})
        deadline = time.monotonic() + END_LIMIT
        while self._end is None:
            if time.monotonic() > deadline:
                raise ChaoskitError(
                    f"job {self.job.number} of Slurm was cancelled, and is still {self.job.state} after "
                    f"{END_LIMIT:g} s: see scontrol show job {self.job.number}"
                )
            time.sleep(0.1)
            self._look()
        return tuple(
            {"pid": pid, "rank": None, "command": f"on {node}"} for node, pids in found.items() for pid in pids
        )

    def close(self) -> None:
        """See `Launch.close`."""
        try:
            if self._end is None:
                self.stop()
        finally:
            self._nodes.let_go()
            if self._never >= 0:
                os.close(self._never)
                self._never = -1

    def _look(self) -> None:
        """Ask Slurm what has become of the job."""
        if self._end is not None:
            return
        job = self._commands.job(self.job.number)
        if job is None:
            raise ChaoskitError(
                f"Slurm does not know job {self.job.number} any more: was it removed by somebody else?"
            )
        self.job = job
        if job.state == "COMPLETING":
            # Ranks outlive a torchrun that was killed. Slurm ends them itself only if it tracks processes by cgroups.
            self._nodes.ask_all("end_orphans", run_id=self._run)
            self._nodes.let_go()  # Slurm waits for every process on the nodes
        elif job.has_ended:
            self._end = LaunchEnd(job.code, why=job.why)
        elif job.restarts > self._restarts:
            why = f"job {job.number} is back in the queue of Slurm"
            self._end = LaunchEnd(-signal.SIGTERM, why=why, requeued=True)
        if self._end is not None:
            self._nodes.let_go()
