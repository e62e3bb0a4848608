"""`FaultSchedule`: the faults of a run that are still to come, in their order, and how the next one is applied.

Each fault is armed once the one before it was applied and observed, or given up on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.armed_fault import ArmedFault
from chaoskit.engine.progress import Progress
from chaoskit.environments.environment import Arrived, Environment
from chaoskit.faults import Fault
from chaoskit.faults.fault import PerRank
from chaoskit.faults.triggers import Every, Moment
from chaoskit.protocol.events import EventWriter

#: A fault with a timer that finds no process is tried again after this many seconds.
RETRY_EVERY = 0.05


class FaultSchedule:
    """`all` are the faults of the run, `waiting` those that have not been applied yet. The caller asks only while no
    other fault is still to be observed."""

    def __init__(
        self,
        faults: Sequence[Fault],
        *,
        env: Environment,
        reference: Reference | None,
        writer: EventWriter,
        progress: Progress,
    ) -> None:
        self.all = [ArmedFault(index, fault) for index, fault in enumerate(faults)]
        self.waiting = list(self.all)
        self._env = env
        self._reference = reference
        self._writer = writer
        self._progress = progress

    def record_plan(self) -> None:
        """Record every fault that is planned."""
        for armed in self.all:
            self._writer.write("fault.planned", fault=armed.index, what=armed.fault.to_json())

    def is_due_at(self, moment: Moment) -> bool:
        """Whether the next fault is to be applied at this moment. Arms it."""
        if self.waiting and self._reference is not None:
            self._armed_at()
        return self.strikes_at(moment)

    def strikes_at(self, moment: Moment) -> bool:
        """Whether this is the moment of the next fault, armed or not."""
        if not self.waiting or self._reference is None:
            return False
        return self.waiting[0].is_due(moment, world_size=self._reference.world_size, plan=self._reference)

    def due_time(self) -> float | None:
        """When the next fault is to be applied, on the monotonic clock; None if it does not go by time. Arms it."""
        if not self.waiting:
            return None
        armed = self.waiting[0]
        delay = armed.fault.trigger.delay if armed.fault.trigger is not None else None
        return None if delay is None else max(self._armed_at() + delay, armed.retry_at)

    @property
    def is_awaited(self) -> bool:
        """Whether a timer of the next fault runs that may be what the job waits for. A strike of a schedule is not: a
        job that hangs until then hangs."""
        if not self.waiting or isinstance(self.waiting[0].fault.trigger, Every):
            return False
        return self.due_time() is not None

    def apply_next(self, arrived: Arrived | None) -> ArmedFault | None:
        """Apply the next fault, at the gate of the rank that has `arrived`, if it is one.

        Returns the fault, whose `applied_at` is None where its target does not exist and it was missed; or None
        where it will be tried again.
        """
        armed = self.waiting[0]
        rank = arrived.rank if arrived is not None else None
        if not armed.requested:
            armed.requested = True
            self._progress.phase(str(armed.fault))
            self._writer.write("fault.requested", fault=armed.index, at=rank)
        try:
            self._apply(armed, arrived)
        except LookupError as error:
            if self.due_time() is not None:
                # It goes by time, and now is between two incarnations: there will be processes again.
                armed.retry_at = time.monotonic() + RETRY_EVERY
                return None
            self.waiting.pop(0)
            self._writer.write("fault.missed", fault=armed.index, evidence={"missed": str(error)})
            return armed
        self.waiting.pop(0)
        armed.applied_at = time.monotonic()
        self._writer.write("fault.applied", fault=armed.index, evidence=dict(armed.evidence))
        return armed

    def _armed_at(self) -> float:
        """Since when the next fault is armed; from now on, if it was not yet. The time of a strike of a schedule begins
        with the strike before it, however long that one took."""
        armed = self.waiting[0]
        if armed.armed_at is None:
            is_strike = armed.index > 0 and isinstance(armed.fault.trigger, Every)
            before = self.all[armed.index - 1].applied_at if is_strike else None
            armed.armed_at = before if before is not None else time.monotonic()
        return armed.armed_at

    def _apply(self, armed: ArmedFault, arrived: Arrived | None) -> None:
        """Apply the fault to those of its victims whose moment is now; raises LookupError where there are none."""
        action = armed.fault.action
        world_size = self._reference.world_size if self._reference is not None else 1
        victims = action.victims(world_size)
        # Not every victim comes to a save.
        own = arrived is not None and arrived.at in ("start", "step") and arrived.rank in victims
        if arrived is None or not own or not armed.traits.apart:
            armed.evidence = action.apply(self._env, world_size)
            return
        armed.evidence = cast(PerRank, action).strike(self._env, arrived.rank, {})
        armed.remaining_victims = {*victims} - {arrived.rank}
        armed.incarnation = arrived.launch, arrived.restart
