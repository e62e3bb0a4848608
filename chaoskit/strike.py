"""`Strike`: a fault on its way through a run: when it comes, and where ranks have to stop at their gates for it.

A fault that comes at a step is waited for by its victims, at that step alone, so that until then it costs the job
nothing; for what comes at another moment the ranks stop there anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from chaoskit.capabilities import CanCorruptNumbers, CanOrder
from chaoskit.faults import Fault
from chaoskit.faults.fault import Manner, manner
from chaoskit.triggers import AtStep, Moment, Plan

#: A step that no job comes to.
NEVER = 1 << 53


@dataclass
class Strike:
    """`owed` are the victims that are still to be struck as their own moments come, in the `life` (launch and restart)
    of the first one; `again` is what came of striking again."""

    index: int
    fault: Fault
    armed: float | None = None
    requested: bool = False
    retry: float = 0.0
    applied: float | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    held: int | None = None
    look_at: float = 0.0
    tick_at: float = 0.0
    heal_at: float | None = None
    heal_launch: int | None = None
    owed: set[int] = field(default_factory=set)
    life: tuple[int, int] = (-1, -1)
    again: list[Mapping[str, Any]] = field(default_factory=list)

    @cached_property
    def manner(self) -> Manner:
        """What its action says of itself."""
        return manner(self.fault.action)

    @property
    def ordered(self) -> bool:
        """Whether its victims do it to themselves, as they are let go."""
        return bool({CanOrder, CanCorruptNumbers} & set(self.fault.action.needs))

    def comes(self, moment: Moment, *, world_size: int, plan: Plan) -> bool:
        """Whether this is its moment, or so many steps ahead of it as it is to be applied."""
        trigger = self.fault.trigger
        if trigger is None:
            return False
        watched = self.fault.action.victims(world_size)
        return any(trigger.fires(each, watched=watched, plan=plan) for each in self._meant(moment))

    def _meant(self, moment: Moment) -> Iterator[Moment]:
        """The moments that this one stands for. The beginning of the job stands for what is too early to be told at a
        step."""
        ahead = self.manner.ahead
        if moment.kind != "step":
            yield moment
        if moment.position is not None and moment.kind == "step":
            yield replace(moment, position=moment.position + ahead)
        elif moment.position == 0 and moment.kind == "start":
            yield from (replace(moment, kind="step", position=early) for early in range(ahead))

    def too_late(self, moment: Moment, *, world_size: int) -> bool:
        """Whether the life of a victim that has just come to its first step began past where it was to be told of this,
        and comes to the step that is meant."""
        trigger = self.fault.trigger
        if not isinstance(trigger, AtStep) or moment.kind != "step" or moment.position is None:
            return False
        if moment.rank not in self.fault.action.victims(world_size):
            return False
        return 0 <= trigger.step - 1 - moment.position < self.manner.ahead

    def stops(self, rank: int, *, world_size: int, least: int) -> Iterator[int]:
        """The positions from `least` on at which the rank has to stop because of it, as it is about to take a step."""
        trigger = self.fault.trigger
        if self.manner.heal_step is not None:
            yield self.manner.heal_step - 1
        if isinstance(trigger, AtStep):
            if self.manner.names:
                # In the step before this one is over; the one before it strikes is the first that is recorded.
                yield trigger.step - 3
            if rank in self.fault.action.victims(world_size):
                yield trigger.step - 1 - self.manner.ahead
        elif trigger is not None and trigger.delay is not None and self.ordered:
            yield least

    def names(self, following: int) -> int:
        """In how many steps from `following` on tensors are to be recorded one by one; 0 where that comes later, or is
        over."""
        if not self.manner.names or not isinstance(self.fault.trigger, AtStep):
            return 0
        first = self.fault.trigger.step - 1
        return max(0, first + self.manner.names - following) if following >= first else 0


def next_stop(strikes: Iterable[Strike], rank: int, *, world_size: int, least: int) -> int:
    """The first position from `least` on at which the rank has to stop for any of them, as it is about to take a step;
    `NEVER` if there is none."""
    stops = (stop for each in strikes for stop in each.stops(rank, world_size=world_size, least=least))
    return min((stop for stop in stops if stop >= least), default=NEVER)
