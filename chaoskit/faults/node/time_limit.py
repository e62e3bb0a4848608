"""`time_limit`: the job reaches the time limit of its scheduler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanLimitTime
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault
from chaoskit.validation import check_whole


@dataclass(frozen=True)
class TimeLimit:
    """See `time_limit`."""

    minutes: int
    name = "time_limit"
    needs = (CanLimitTime,)
    heal_after = None
    heal_launches = None
    # The job goes on until it is told, and saves then.
    holds = False
    tells_to_stop = True
    observe_within = math.inf

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanLimitTime, world_size: int) -> Mapping[str, Any]:
        return {"cloud": "slurm", "then": "kill", **env.limit_time(self.minutes)}

    def observed(self, env: CanLimitTime, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = env.time_limit_reached()
        return None if found is None else {**applied, **found}

    def heal(self, env: CanLimitTime, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "minutes": self.minutes}

    def __str__(self) -> str:
        return f"reach the time limit within {self.minutes} min"


@fault("time_limit", TimeLimit)
def time_limit(*, minutes: int = 1) -> Fault:
    """Have the job reach its time limit within so many `minutes`: the limit of the running job is lowered.

    Slurm then does what it does at every limit: it sends the signal that the job has asked for (`--signal`), so many
    seconds before; then SIGTERM, and SIGKILL after KillWait. It counts limits in whole minutes since the job has
    started, and looks for jobs that have reached theirs every 30 s: with `minutes=1` the job is ended 0 to 90 s later.
    That time counts toward the deadline of the run, and the job must still be training then. It is started again with
    the limit that it had.

    Observed when the job has ended after one of these signals. The evidence says when they came, in which state Slurm
    has the job, and whether it had ended by itself, was killed, or is back in the queue. Raises UsageError for what is
    no number of minutes.
    """
    return Fault(TimeLimit(check_whole("time_limit", "minutes", minutes, least=1)))
