"""`SlurmCommands`: asks Slurm by its commands, and gives it those of `orders` and `submission`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaoskit.environments.slurm.orders import What, order
from chaoskit.environments.slurm.queued_job import FORMAT, QueuedJob, read_jobs, read_minutes
from chaoskit.environments.slurm.slurm_error import SlurmError
from chaoskit.errors import UsageError

#: Seconds for an answer of the controller, which may be busy.
_LIMIT = 120.0
_UNKNOWN_JOB = "Invalid job id"
_CONTROLLER = re.compile(r"^SlurmctldHost\[0\]\s*=\s*([^\s(]+)(?:\(([^)]+)\))?", re.MULTILINE)
_KILL_WAIT = re.compile(r"^KillWait\s*=\s*(\d+)", re.MULTILINE)
#: What an allocation around the harness, or the harness itself, leaves in the variables.
_NOT_FOR_STEPS = ("SLURM_JOB", "SLURM_STEP", "SLURM_NTASKS", "SLURM_NNODES", "SRUN_", "SBATCH_", "CHAOSKIT_")


class SlurmCommands:
    """The commands of the Slurm that SLURM_CONF names, or that of this machine."""

    def jobs(self) -> list[QueuedJob]:
        """All jobs of this user that have not ended. Raises SlurmError."""
        return read_jobs(_call(["squeue", "--noheader", f"--user={os.getuid()}", f"--Format={FORMAT}"]))

    def job(self, number: int) -> QueuedJob | None:
        """One job, also one that has ended lately; None if Slurm does not know it any more. Raises SlurmError."""
        words = ["squeue", "--noheader", "--states=all", f"--jobs={number}", f"--Format={FORMAT}"]
        try:
            found = read_jobs(_call(words))
        except SlurmError as error:
            if _UNKNOWN_JOB in error.said:
                return None
            raise
        return found[0] if found else None

    def shown(self, number: int, field: str) -> str:
        """A field of one job as squeue writes it, such as Partition or QOS. Raises SlurmError."""
        return _call(["squeue", "--noheader", f"--jobs={number}", f"--Format={field}:"]).strip()

    def minutes(self, job: QueuedJob) -> tuple[float, float]:
        """For how many minutes the job has been running, and for how many it may in all. Raises SlurmError."""
        said = _call(["squeue", "--noheader", "--states=all", f"--jobs={job.number}", "--Format=TimeUsed:|,TimeLimit:"])
        used, _, limit = said.strip().partition("|")
        return read_minutes(used), read_minutes(limit)

    def kill_wait(self) -> float:
        """Seconds between the SIGTERM and the SIGKILL of a job that has reached its limit. Raises SlurmError."""
        said = _call(["scontrol", "show", "config"])
        found = _KILL_WAIT.search(said)
        if found is None:
            raise SlurmError("scontrol show config names no KillWait", program="scontrol", said=said)
        return float(found[1])

    def submit(self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> int:
        """Submit a job by a command of `submission`; returns its number. Raises UsageError for one that Slurm does not
        take."""
        try:
            said = _call(words, env=env, cwd=cwd)
        except SlurmError as error:
            if not error.said:
                raise
            raise UsageError(f"Slurm does not take the job: {error.said}") from error
        number = said.strip().partition(";")[0]
        if not number.isdecimal():
            raise SlurmError(
                f"sbatch wrote {said[:200]!r}, and not the number of a job", program="sbatch", said=said
            )
        return int(number)

    def do(self, what: What, job: QueuedJob, *, run: str, **given: Any) -> None:
        """Give one of the `orders`. A job that ends at this moment is not cancelled. Raises ForeignJob, SlurmError."""
        words = order(what, job, run=run, **given)
        try:
            _call(words)
        except SlurmError:
            now = self.job(job.number) if what == "cancel" else job
            if now is not None and not now.has_ended and now.state != "COMPLETING":
                raise

    def attach(self, job: QueuedJob, *, run: str, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a step on all nodes of a running job. Raises ForeignJob, SlurmError."""
        words = order("attach", job, run=run, path=log, command=command)
        env = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_STEPS)}
        try:
            with log.open("ab") as said:
                return subprocess.Popen(
                    words, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
                )
        except OSError as error:
            raise _cannot_start("srun", error) from error

    def names(self, node_list: str) -> list[str]:
        """The names of the nodes that a list such as `cn[0-3,7]` stands for. Raises SlurmError."""
        return _call(["scontrol", "show", "hostnames", node_list]).split()

    def own_address(self) -> str:
        """The address from which this machine reaches the controller: nodes can reach it there. Raises SlurmError."""
        said = _call(["scontrol", "show", "config"])
        found = _CONTROLLER.search(said)
        if found is None:
            raise SlurmError("scontrol show config names no SlurmctldHost", program="scontrol", said=said)
        host = found[2] or found[1]
        try:
            family, kind, _, _, target = socket.getaddrinfo(host, 6817, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as asked:
                asked.connect(target)  # sends nothing: the kernel chooses the way, and with it our address
                return str(asked.getsockname()[0])
        except OSError as error:
            raise SlurmError(
                f"the address of Slurm's controller {host!r} cannot be found: {error}",
                program="scontrol",
                said=said,
            ) from error


def _call(words: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """What the command writes. Raises SlurmError if it fails."""
    try:
        done = subprocess.run(
            words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT,
            errors="replace", check=False,
        )  # fmt: skip
    except OSError as error:
        raise _cannot_start(words[0], error) from error
    except subprocess.TimeoutExpired as error:
        raise SlurmError(f"{words[0]} has not answered within {_LIMIT:g} s", program=words[0]) from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise SlurmError(
            f"{words[0]} failed: {said or f'exit code {done.returncode}'}", program=words[0], said=said
        )
    return done.stdout


def _cannot_start(program: str, error: OSError) -> SlurmError:
    return SlurmError(f"{program} cannot be started: {error.strerror or error}", program=program)
