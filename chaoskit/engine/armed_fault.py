"""`ArmedFault`: a fault on its way through a run: when it is applied, and where ranks have to stop for it.

Only the victims of a fault wait for it, at its step alone, so that until then it costs the job nothing. At the start
and at saves the ranks stop anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from chaoskit.capabilities import CanCorruptNumbers, CanOrder
from chaoskit.faults import Fault
from chaoskit.faults.fault import ActionTraits, action_traits
from chaoskit.faults.triggers import AtStep, Moment, StepPlan

#: A step that no job reaches.
NEVER = 1 << 53


@dataclass
class ArmedFault:
    """One fault and its state. Times are of the monotonic clock.

    `held_rank` waits at its gate until the effect has been observed. `remaining_victims` are those to which the fault
    has not been applied yet, in the `incarnation` (launch and restart) of the first one; `repetitions` is the evidence
    of each further application.
    """

    index: int
    fault: Fault
    armed_at: float | None = None
    requested: bool = False
    retry_at: float = 0.0
    applied_at: float | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    held_rank: int | None = None
    look_at: float = 0.0
    tick_at: float = 0.0
    heal_at: float | None = None
    heal_launch: int | None = None
    remaining_victims: set[int] = field(default_factory=set)
    incarnation: tuple[int, int] = (-1, -1)
    repetitions: list[Mapping[str, Any]] = field(default_factory=list)

    @cached_property
    def traits(self) -> ActionTraits:
        """The traits of its action."""
        return action_traits(self.fault.action)

    @property
    def ordered(self) -> bool:
        """Whether its victims carry it out themselves, on an order that they get with their release."""
        return bool({CanOrder, CanCorruptNumbers} & set(self.fault.action.needs))

    def is_due(self, moment: Moment, *, world_size: int, plan: StepPlan) -> bool:
        """Whether it is to be applied at this moment: at its trigger, or as many steps ahead as its action needs."""
        trigger = self.fault.trigger
        if trigger is None:
            return False
        watched = self.fault.action.victims(world_size)
        return any(trigger.fires(each, watched=watched, plan=plan) for each in self._moments(moment))

    def _moments(self, moment: Moment) -> Iterator[Moment]:
        """The moments that the trigger is asked about at this one. The start of the job stands for the first steps too,
        which no gate precedes by enough."""
        ahead = self.traits.ahead
        if moment.kind != "step":
            yield moment
        if moment.position is not None and moment.kind == "step":
            yield replace(moment, position=moment.position + ahead)
        elif moment.position == 0 and moment.kind == "start":
            yield from (replace(moment, kind="step", position=early) for early in range(ahead))

    def too_late(self, moment: Moment, *, world_size: int) -> bool:
        """Whether a victim's process, at its first step, begins past the gate at which the fault would be ordered, but
        before the step that is meant."""
        trigger = self.fault.trigger
        if not isinstance(trigger, AtStep) or moment.kind != "step" or moment.position is None:
            return False
        if moment.rank not in self.fault.action.victims(world_size):
            return False
        return 0 <= trigger.step - 1 - moment.position < self.traits.ahead

    def stops(self, rank: int, *, world_size: int, least: int) -> Iterator[int]:
        """The positions from `least` on at which the rank has to stop for it, before it takes a step."""
        trigger = self.fault.trigger
        if self.traits.heal_step is not None:
            yield self.traits.heal_step - 1
        if isinstance(trigger, AtStep):
            if self.traits.names:
                # Recording begins with the step before the one that is changed, and is ordered one step ahead.
                yield trigger.step - 3
            if rank in self.fault.action.victims(world_size):
                yield trigger.step - 1 - self.traits.ahead
        elif trigger is not None and trigger.delay is not None and self.ordered:
            yield least

    def steps_to_record(self, following: int) -> int:
        """The number of steps from `following` on in which tensors are recorded one by one; 0 before and after."""
        if not self.traits.names or not isinstance(self.fault.trigger, AtStep):
            return 0
        first = self.fault.trigger.step - 1
        return max(0, first + self.traits.names - following) if following >= first else 0


def next_stop(faults: Iterable[ArmedFault], rank: int, *, world_size: int, least: int) -> int:
    """The first position from `least` on at which the rank has to stop for any of the faults, before it takes a step;
    `NEVER` if there is none."""
    stops = (stop for each in faults for stop in each.stops(rank, world_size=world_size, least=least))
    return min((stop for stop in stops if stop >= least), default=NEVER)
