"""`suspend`: a queue takes all nodes of the job away, and gives it others later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanSuspend
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault

#: Seconds for pods to end: their grace is 30 s unless the job says otherwise.
_ENDING = 120.0


@dataclass(frozen=True)
class Suspend:
    """See `suspend`."""

    name = "suspend"
    needs = (CanSuspend,)
    heal_after = None
    heal_launches = 0
    holds = False  # a job that saves after SIGTERM has to go on
    observe_within = _ENDING

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanSuspend, world_size: int) -> Mapping[str, Any]:
        return env.suspend()

    def observed(self, env: CanSuspend, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"gone": applied["pods"]} if env.is_suspended() else None

    def heal(self, env: CanSuspend, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        env.resume()
        return {"resumed": applied["job"]}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name}

    def __str__(self) -> str:
        return "suspend the job"


@fault("suspend", Suspend)
def suspend() -> Fault:
    """Suspend the job as a queue such as Kueue does: all its pods are deleted with their grace, after SIGTERM.

    The job is resumed once nothing of it runs any more. Observed once the cluster has none of the pods any more that it
    had. Needs a job template (`--job-template`).
    """
    return Fault(Suspend())
