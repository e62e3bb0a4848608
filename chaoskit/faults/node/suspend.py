"""`suspend`: a queue takes all nodes of the job away, and gives it others later."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanSuspend
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault
from chaoskit.validation import shown

#: Seconds for nodes to end: the grace of pods, and Slurm's KillWait, is 30 s unless somebody says otherwise.
_ENDING = 120.0
_NAME = re.compile(r"[A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Suspend:
    """See `suspend`."""

    partition: str = ""
    qos: str = ""
    name = "suspend"
    needs = (CanSuspend,)
    heal_after = None
    heal_launches = 0
    holds = False  # a job that saves after SIGTERM has to go on
    tells_to_stop = True
    observe_within = _ENDING

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanSuspend, world_size: int) -> Mapping[str, Any]:
        return env.suspend(self.partition, self.qos)

    def observed(self, env: CanSuspend, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"gone": applied["nodes"]} if env.is_suspended() else None

    def heal(self, env: CanSuspend, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        env.resume()
        return {"resumed": applied["job"]}

    def to_json(self) -> dict[str, Any]:
        by = {"partition": self.partition, "qos": self.qos}
        return {"kind": self.name, **{key: name for key, name in by.items() if name}}

    def __str__(self) -> str:
        by = {"partition": self.partition, "QOS": self.qos}
        whose = " and ".join(f"{key} {name}" for key, name in by.items() if name)
        return f"have a job of {whose} preempt the job" if whose else "suspend the job"


@fault("suspend", Suspend)
def suspend(*, partition: str = "", qos: str = "") -> Fault:
    """Suspend the job as a queue does, such as Kueue or Slurm: SIGTERM, the grace of its nodes, SIGKILL.

    Slurm puts the job back into its queue. The job is resumed once nothing of it runs any more. Observed once the
    cluster has none of the pods any more that it had, or Slurm counts one more restart of the job. In Kubernetes it
    needs a job template (`--job-template`).

    With a `partition` or a `qos`, a job of that partition or QOS of Slurm asks for the very nodes, and preempts the
    job, with the grace that the cluster gives. It ends once the job is out. Without a `partition`, it is in that of the
    job. Observed once Slurm has noted the preemption, and nothing runs. Raises UsageError for what is no name of a
    partition or of a QOS.
    """
    given = (("partition", partition, "partition, such as 'urgent'"), ("qos", qos, "QOS, such as 'high'"))
    for key, name, what in given:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"suspend: {key} must be the name of a {what}, not {shown(name)}")
    return Fault(Suspend(partition, qos))
