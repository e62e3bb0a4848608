"""`order`: the one place that makes an argument list which names a job, and refuses any job but those of the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from chaoskit.environments.slurm.queued_job import QueuedJob
from chaoskit.environments.slurm.slurm_error import ForeignJob

#: What must be on the PATH.
PROGRAMS = ("sbatch", "srun", "squeue", "scontrol", "scancel")
What = Literal["cancel", "put back", "release", "attach", "write to", "signal", "signal script", "limit"]


def order(
    what: What,
    job: QueuedJob,
    *,
    run: str,
    path: Path | None = None,
    command: Sequence[str] = (),
    signum: int = 0,
    minutes: int = 0,
) -> list[str]:
    """The command that does this to a job of the run: `cancel` it; `put` it `back` into the queue, where
    it waits until it is told to `release` it; `write to` another file from its next start on; `signal` all its steps,
    or the batch `script` alone; `limit` the minutes that it may run in all; or `attach` a step that runs a command once
    on each of its nodes and takes nothing from the others.

    Raises ForeignJob unless the comment of the job has the id of the run.
    """
    if job.mark is None or job.mark.run != run:
        raise ForeignJob(f"job {job.number} of Slurm does not belong to run {run}: chaoskit leaves it alone")
    number = str(job.number)
    if what == "cancel":
        return ["scancel", number]
    if what in ("put back", "release"):
        return ["scontrol", "requeuehold" if what == "put back" else "release", number]
    if what == "write to":
        return ["scontrol", "update", f"JobId={number}", f"StdOut={path}"]
    if what in ("signal", "signal script"):
        return ["scancel", f"--signal={signum}", *(["--batch"] if what == "signal script" else []), number]
    if what == "limit":
        return ["scontrol", "update", f"JobId={number}", f"TimeLimit={minutes}"]
    each = str(job.nodes)
    return [
        "srun", f"--jobid={number}", "--overlap", f"--nodes={each}", f"--ntasks={each}", "--ntasks-per-node=1",
        "--no-kill", "--kill-on-bad-exit=0", "--mpi=none", "--input=none", "--chdir=/", f"--output={path}",
        f"--error={path}", *command,
    ]  # fmt: skip
