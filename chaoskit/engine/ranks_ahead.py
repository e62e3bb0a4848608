"""`RanksAhead`: ranks whose training is ahead of a fault that strikes the writes of their job.

A save may be written by a thread while the training goes on. The step that ends a fault of the storage, or the step of
the next fault, may then come before the first write that the fault strikes. A rank that gets there waits at its gate,
and the thread goes on, until the effect has been seen or the patience is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.fault_schedule import FaultSchedule
from chaoskit.engine.observation import OBSERVE_WITHIN, Observation
from chaoskit.environments.environment import Arrived
from chaoskit.faults.triggers import Moment


def patience(reference: Reference | None) -> float:
    """For how many seconds a rank may wait: so that no collective of the others gives up."""
    timeout = reference.group_timeout if reference is not None else None
    return OBSERVE_WITHIN if timeout is None else min(OBSERVE_WITHIN, timeout / 3)


class RanksAhead:
    """The ranks of one run that wait. `patience` is in seconds, for each fault."""

    def __init__(self, observation: Observation, *, patience: float) -> None:
        self._observation = observation
        self._patience = patience
        self._waiting: list[tuple[Arrived, Moment]] = []
        #: The fault that they wait for, and until when.
        self._fault = -1
        self._until = 0.0

    def holds(self, arrived: Arrived, moment: Moment, schedule: FaultSchedule) -> bool:
        """Whether a rank has to wait; it is remembered then."""
        self._waiting = [one for one in self._waiting if one[0].rank != arrived.rank]  # a process that is gone
        pending = self._observation.pending
        if pending is None or not pending.traits.unhurried or moment.kind != "step" or moment.position is None:
            return False
        ends = pending.traits.heal_step is not None and moment.position + 1 >= pending.traits.heal_step
        if not ends and not schedule.strikes_at(moment):
            return False
        now = time.monotonic()
        self._observation.look(now, early=True)
        if self._observation.pending is None:
            return False
        if self._fault != pending.index:
            self._fault, self._until = pending.index, now + self._patience
        if now >= self._until:
            return False
        self._waiting.append((arrived, moment))
        return True

    def timers(self) -> list[float]:
        """When the patience is over, on the monotonic clock."""
        return [self._until] if self._waiting else []

    def free(self, now: float) -> Iterator[tuple[Arrived, Moment]]:
        """The ranks that need not wait any longer, each once."""
        if self._waiting and (self._observation.pending is None or now >= self._until):
            freed, self._waiting = self._waiting, []
            yield from freed

    def clear(self) -> None:
        """Forget them: their processes have ended."""
        self._waiting.clear()
