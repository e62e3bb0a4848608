"""`OutKeeper`: makes all ranks of an uninterrupted run wait at some steps, and keeps the job's `{out}` meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from chaoskit.engine.armed_fault import NEVER
from chaoskit.engine.windows.stops import Stops
from chaoskit.environments.environment import Arrived
from chaoskit.faults.triggers import Moment

#: Seconds for which ranks wait for each other, at most: long enough for a slow save of one of them.
PATIENCE = 30.0


class OutKeeper:
    """`stops` are the positions at which ranks wait, each with the position of the save before. `keep` is called with
    both once all `world_size` ranks wait; it returns False to end the keeping. The keeping also ends if a rank does not
    come."""

    def __init__(
        self,
        stops: Stops,
        keep: Callable[[int, int], bool],
        *,
        world_size: int,
        patience: float = PATIENCE,
    ) -> None:
        self.missed = ""
        self._stops = stops
        self._over = False
        self._keep = keep
        self._world_size = world_size
        self._patience = patience
        self._waiting: dict[int, tuple[Arrived, Moment]] = {}
        self._until = 0.0
        self._freed = False

    @property
    def waits(self) -> bool:
        """Whether states are still to be kept."""
        return not self._over and self._stops.left

    def next_stop(self, least: int) -> int:
        """The first position from `least` on at which a rank has to stop; `NEVER` if there is none."""
        return NEVER if self._over else self._stops.next(least)

    def holds(self, arrived: Arrived, moment: Moment) -> bool:
        """Whether the rank waits for the others; if so, it is remembered."""
        if self._over or moment.kind != "step" or moment.position is None:
            return False
        save = self._stops.save_before(moment.position)
        if save is None:
            return False
        if not self._waiting:
            self._until = time.monotonic() + self._patience
        self._waiting[arrived.rank] = arrived, moment
        if len(self._waiting) == self._world_size:
            self._stops.met(moment.position)
            self._over = not self._keep(moment.position, save)
            self._freed = True
        return True

    def timers(self) -> list[float]:
        """When the patience is over, on the monotonic clock."""
        return [self._until] if self._waiting else []

    def free(self, now: float) -> Iterator[tuple[Arrived, Moment]]:
        """The ranks that need not wait any longer, each once."""
        if self._waiting and not self._freed and now >= self._until:
            there = ", ".join(map(str, sorted(self._waiting)))
            self.missed = f"only rank {there} came to a step within {self._patience:g} s, and the others did not"
            self._over = self._freed = True
        if self._freed:
            waiting, self._waiting, self._freed = self._waiting, {}, False
            yield from waiting.values()
