"""`swept`: cancels the jobs in the queue whose harness is dead."""

from __future__ import annotations

import time

from chaoskit.environments.slurm.commands import SlurmCommands
from chaoskit.environments.slurm.queued_job import QueuedJob

#: Seconds for a job that is ending to show whether it goes back into the queue: KillWait is 30 s by default.
_SETTLE = 60.0


def swept(commands: SlurmCommands) -> tuple[str, ...]:
    """Cancel them; returns which, for people. A job is ours if its comment, as a whole, is one of chaoskit's; that of a
    harness on another machine is left alone. Raises SlurmError."""
    found: list[str] = []
    deadline = time.monotonic() + _SETTLE
    while left := _abandoned(commands):
        for job in left:
            if job.state != "COMPLETING":
                commands.do("cancel", job, run=job.mark.run if job.mark is not None else "")
                found.append(f"job {job.number} of Slurm")
        # One that a dead harness has put back into the queue is there only once nothing of it runs.
        if all(job.state != "COMPLETING" for job in left) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return tuple(dict.fromkeys(found))


def _abandoned(commands: SlurmCommands) -> list[QueuedJob]:
    return [job for job in commands.jobs() if job.mark is not None and job.mark.is_abandoned]
