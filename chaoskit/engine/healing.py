"""`Healing`: drives the faults that last, and undoes each when its time has come, at the latest when the run ends."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import cast

from chaoskit.engine.armed_fault import ArmedFault
from chaoskit.engine.claimed import claimed
from chaoskit.engine.observation import Observation
from chaoskit.engine.progress import Progress
from chaoskit.environments.environment import Environment
from chaoskit.faults.fault import Periodic
from chaoskit.protocol.events import EventWriter


class Healing:
    """`faults` are those that were applied and are still to be healed, in the order in which they were applied."""

    def __init__(
        self, env: Environment, writer: EventWriter, *, progress: Progress, observation: Observation
    ) -> None:
        self.faults: list[ArmedFault] = []
        self._env = env
        self._writer = writer
        self._progress = progress
        self._observation = observation

    def add(self, armed: ArmedFault, *, launch: int) -> None:
        """Take on a fault that has just been applied in that launch, if there is anything to heal."""
        assert armed.applied_at is not None
        action = armed.fault.action
        if action.heal_after is not None:
            armed.heal_at = armed.applied_at + action.heal_after
        if action.heal_launches is not None:
            armed.heal_launch = launch + action.heal_launches
        if {armed.heal_at, armed.heal_launch, armed.traits.heal_step} != {None}:
            self.faults.append(armed)
        if armed.traits.tick_every is not None:
            armed.tick_at = armed.applied_at + armed.traits.tick_every

    @property
    def while_training(self) -> bool:
        """Whether a fault is to be healed while the ranks train, and not between two launches."""
        return any(armed.heal_at is not None or armed.traits.heal_step is not None for armed in self.faults)

    def timers(self) -> list[float]:
        """When the next thing is due, on the monotonic clock: of each fault its healing and its next tick."""
        due = [armed.heal_at for armed in self.faults if armed.heal_at is not None]
        return due + [armed.tick_at for armed in self.faults if armed.traits.tick_every is not None]

    def tick(self, now: float) -> None:
        """Drive the faults whose next tick is due."""
        for armed in self.faults:
            every = armed.traits.tick_every
            if every is not None and now >= armed.tick_at:
                armed.evidence = cast(Periodic, armed.fault.action).tick(self._env, armed.evidence)
                armed.tick_at = now + every

    def heal_by_time(self, now: float) -> None:
        """Heal the faults whose time is over."""
        self._heal(armed for armed in self.faults if armed.heal_at is not None and now >= armed.heal_at)

    def heal_by_step(self, step: int) -> None:
        """Heal the faults that last until a rank is about to take that step."""
        self._heal(armed for armed in self.faults if (armed.traits.heal_step or math.inf) <= step)

    def heal_by_launch(self, ended: int) -> None:
        """Heal the faults that last until the launch that has just ended."""
        self._heal(armed for armed in self.faults if armed.heal_launch is not None and armed.heal_launch <= ended)

    def heal_all(self) -> None:
        """Heal every fault that is left."""
        self._heal(self.faults)

    def _heal(self, due: Iterable[ArmedFault]) -> None:
        """Heal the newest first: two that have moved the same things must move them back in reverse order."""
        for armed in reversed(list(due)):
            if armed is self._observation.pending:
                self._observation.look(time.monotonic(), last=True)
            self.faults.remove(armed)
            self._progress.phase(f"heal: {armed.fault.action}")
            said = claimed(self._env)
            evidence = {**armed.fault.action.heal(self._env, armed.evidence), **said}
            self._writer.write("fault.healed", fault=armed.index, evidence=evidence)
