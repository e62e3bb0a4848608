"""`Observation`: asks whether the fault that was applied last has taken effect, and records the answer.

The rank at whose gate the fault was applied is held until then. A fault that only shows while the ranks go on holds no
rank; it is asked about until it is healed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from chaoskit.engine.armed_fault import ArmedFault
from chaoskit.engine.claimed import claimed
from chaoskit.environments.environment import Environment
from chaoskit.protocol.events import EventWriter

#: After this many seconds without an effect a fault counts as not observed, unless its action sets another limit.
OBSERVE_WITHIN = 10.0
#: Seconds between two looks at an applied fault.
LOOK_EVERY = 0.003
#: A fault that holds no rank is looked at less and less often: after this share of the time since it was applied, and
#: after `LOOK_AT_LEAST_EVERY` seconds at the latest.
LOOK_SHARE = 0.02
LOOK_AT_LEAST_EVERY = 0.1


class Observation:
    """`pending` is the applied fault whose effect has not been seen yet. `release` lets a held rank go on."""

    def __init__(self, env: Environment, writer: EventWriter, *, release: Callable[[int], None]) -> None:
        self.pending: ArmedFault | None = None
        self._env = env
        self._writer = writer
        self._release = release

    @property
    def reported_by_rank(self) -> bool:
        """Whether the rank itself reports the effect, so that a look costs nothing."""
        return self.pending is not None and self.pending.ordered and not self.pending.remaining_victims

    @property
    def next_look(self) -> float:
        """When to look next, on the monotonic clock."""
        return max(time.monotonic() + LOOK_EVERY, self.pending.look_at if self.pending is not None else 0.0)

    def look(self, now: float, *, early: bool = False, last: bool = False) -> None:
        """Ask whether the fault has taken effect, once its next look is due (or `early`). After the `last` look, or
        when its time is over, stop looking."""
        armed = self.pending
        if armed is None or armed.applied_at is None or not (now >= armed.look_at or early or last):
            return
        if armed.remaining_victims and not (early or last):
            return
        try:
            seen = armed.fault.action.observed(self._env, armed.evidence)
        except LookupError as error:
            self._writer.write("fault.missed", fault=armed.index, evidence={"missed": str(error)})
            self._finish(armed)
            return
        if seen is not None:
            evidence = {**seen, **claimed(self._env)}
            self._writer.write("fault.observed", fault=armed.index, evidence=evidence)
        within = armed.traits.observe_within or OBSERVE_WITHIN
        within = max(within, armed.fault.action.heal_after or 0.0)
        if seen is not None or last or now > armed.applied_at + within:
            self._finish(armed)
        elif not armed.traits.holds:
            # A look costs the job time: be precise at first, proportionate later.
            share = LOOK_SHARE * (now - armed.applied_at)
            armed.look_at = now + min(LOOK_AT_LEAST_EVERY, max(LOOK_EVERY, share))

    def settle(self) -> None:
        """Wait until the fault has been observed or given up on. One that only shows while the ranks go on stays
        pending: between two launches there are none."""
        while self.pending is not None and self.pending.traits.holds:
            self.look(time.monotonic())
            if self.pending is not None:
                time.sleep(LOOK_EVERY)

    def _finish(self, armed: ArmedFault) -> None:
        self.pending = None
        if armed.held_rank is not None:
            self._release(armed.held_rank)
