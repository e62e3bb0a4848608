"""`QueuedJob`: one job as `squeue` shows it, in the parseable form that all versions of Slurm write. Pure functions."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import dataclass

from chaoskit.environments.slurm.run_mark import RunMark
from chaoskit.environments.slurm.slurm_error import SlurmError

#: The fields, in the order in which they are read. The comment comes last, since it may hold anything.
_FIELDS = (
    "JobID", "ArrayTaskID", "State", "Reason", "RestartCnt", "NumNodes", "NodeList", "exit_code", "PreemptTime",
    "Comment",
)  # fmt: skip
#: For the option -O of squeue.
FORMAT = ",".join(f"{name}:|" for name in _FIELDS[:-1]) + ",Comment:"
#: The states from which a job does nothing more.
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT",
     "REVOKED"}
)  # fmt: skip
_NEVER = ("N/A", "None", "")
_NO_ARRAY = ("N/A", "", "(null)")
#: States that say why a job has ended, and what to do.
_WHY = {
    "TIMEOUT": "it has reached its time limit: give it more time with the option --time of sbatch, or have it save and "
    "requeue itself before (--signal)",
    "DEADLINE": "it has reached its deadline: give it a later one with the option --deadline",
    "OUT_OF_MEMORY": "its nodes had no memory left for it: ask for more with the option --mem",
    "NODE_FAIL": "one of its nodes has failed",
    "BOOT_FAIL": "its nodes did not start",
    "PREEMPTED": "another job has preempted it",
    "CANCELLED": "it was cancelled",
}
#: Reasons of a pending job that waiting does not end, and what to do.
_HOPELESS = {
    "BadConstraints": "no node of the cluster satisfies what the job asks for: change its options",
    "PartitionDown": "the partition is down: choose another one with --partition",
    "PartitionInactive": "the partition is inactive: choose another one with --partition",
    "PartitionNodeLimit": "it asks for more nodes than the partition gives to one job: change its options",
    "PartitionTimeLimit": "its time limit exceeds that of the partition: lower it, or choose another partition",
    "PartitionConfig": "it asks for more nodes than the partition has, or for what it does not allow: change its "
    "options, or choose another partition with --partition",
    "JobHeldUser": "it is held: leave the option --hold out, or release it",
    "JobHeldAdmin": "an administrator holds it",
    "InvalidAccount": "its account is not valid: choose another one with the option --account",
    "InvalidQOS": "its QOS is not valid: choose another one with the option --qos",
    "DependencyNeverSatisfied": "it depends on a job that has failed: leave the option --dependency out",
}


@dataclass(frozen=True)
class QueuedJob:
    """One job. `exit_status` is that of the batch script, as the system call wait gives it.
    `is_preempted`: another job has preempted it since it started."""

    number: int
    array: str
    state: str
    reason: str
    restarts: int
    nodes: int
    node_list: str
    exit_status: int
    comment: str
    is_preempted: bool = False

    @property
    def mark(self) -> RunMark | None:
        """The run that it belongs to; None if that is none of chaoskit's."""
        return RunMark.read(self.comment)

    @property
    def is_array(self) -> bool:
        """Whether it is, or has, tasks of an array."""
        return self.array not in _NO_ARRAY

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs or will run."""
        return self.state in ENDED

    @property
    def code(self) -> int:
        """Its exit code, negative for a signal. Never 0 unless Slurm counts it as completed."""
        code = os.waitstatus_to_exitcode(self.exit_status)
        if self.state == "COMPLETED" or code != 0:
            return code
        return (
            -signal.SIGTERM if self.state in ("CANCELLED", "TIMEOUT", "PREEMPTED", "DEADLINE") else -signal.SIGKILL
        )

    @property
    def why(self) -> str:
        """Why Slurm has ended it, and the remedy; "" if it has ended by itself, or not at all."""
        said = _WHY.get(self.state)
        return f"Slurm has ended job {self.number}, in state {self.state}: {said}" if said is not None else ""

    @property
    def hopeless(self) -> str:
        """What to do about a pending job that will not start by itself; "" if it may."""
        return _HOPELESS.get(self.reason, "") if self.state == "PENDING" else ""


def read_jobs(said: str) -> list[QueuedJob]:
    """The jobs in the output of squeue. Raises SlurmError for what it does not understand."""
    found = []
    for line in said.splitlines():
        if not line.strip():
            continue
        parts = line.split("|", len(_FIELDS) - 1)
        try:
            number, array, state, reason, restarts, nodes, node_list, status, preempted, comment = map(
                str.strip, parts
            )
            found.append(
                QueuedJob(
                    number=int(number), array=array, state=state, reason=reason, restarts=int(restarts),
                    nodes=int(nodes), node_list=node_list, exit_status=_status(status), comment=comment,
                    is_preempted=preempted not in _NEVER,
                )
            )  # fmt: skip
        except ValueError as error:
            raise SlurmError(
                f"squeue wrote {line[:200]!r}, and not the {len(_FIELDS)} fields that it was asked for: chaoskit knows "
                "the output of Slurm 22.05; say which version you have (squeue --version)",
                program="squeue",
                said=line,
            ) from error
    return found


def read_minutes(text: str) -> float:
    """The minutes of a time as squeue writes it: `12:34`, `1:02:03`, `2-01:02:03`, `UNLIMITED`. Raises SlurmError."""
    if text.strip() == "UNLIMITED":
        return math.inf
    days, _, clock = f"0-{text.strip()}".rpartition("-")
    try:
        seconds = 0
        for part in clock.split(":"):
            seconds = seconds * 60 + int(part)
        return int(days.removeprefix("0-")) * 1440 + seconds / 60
    except ValueError as error:
        raise SlurmError(f"squeue wrote {text!r}, and not a time", program="squeue", said=text) from error


def _status(text: str) -> int:
    """The status of an exit: `256`, or `1:0`, the code and the signal."""
    code, colon, signum = text.partition(":")
    return int(code) << 8 | int(signum) if colon else int(code)
