"""`Lasting`: what is left of faults that have struck: victims whose own moment is still to come, and moments that come
again, after a rollback or a restart, for those that are to strike again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from chaoskit.environments.environment import Arrived, Environment
from chaoskit.events import EventWriter
from chaoskit.faults.fault import Apart
from chaoskit.reference import Reference
from chaoskit.strike import Strike
from chaoskit.triggers import Moment


class Lasting:
    """Those of one run."""

    def __init__(self, env: Environment, writer: EventWriter, reference: Reference | None) -> None:
        self.env = env
        self.writer = writer
        self.reference = reference
        self._strikes: list[Strike] = []
        #: Those that have struck again and have not been seen to, with what was applied.
        self._unseen: list[tuple[Strike, Mapping[str, Any]]] = []

    @property
    def strikes(self) -> list[Strike]:
        """Those that ranks may still have to stop for."""
        return [each for each in self._strikes if each.owed or each.manner.again]

    @property
    def unseen(self) -> bool:
        """Whether there is something to look for."""
        return bool(self._unseen)

    def begin(self, strike: Strike) -> None:
        """It has struck, or found nobody to strike."""
        if (strike.owed or strike.manner.again) and strike not in self._strikes:
            self._strikes.append(strike)

    def arrived(self, arrived: Arrived, moment: Moment) -> None:
        """A rank is at its gate: is it its own moment?"""
        for strike in self.strikes:
            if (arrived.launch, arrived.restart) != strike.life:
                strike.owed.clear()
            try:
                self._strike(strike, arrived, moment)
            except LookupError as error:
                self._tell(strike, {"rank": arrived.rank, "missed": str(error)})

    def _strike(self, strike: Strike, arrived: Arrived, moment: Moment) -> None:
        """Raises LookupError where it would have to be struck and cannot be."""
        assert self.reference is not None
        action, world = cast(Apart, strike.fault.action), self.reference.world_size
        if strike.comes(moment, world_size=world, plan=self.reference):
            if arrived.rank in strike.owed:
                strike.owed.discard(arrived.rank)
                strike.evidence = action.strike(self.env, arrived.rank, strike.evidence)
            elif strike.manner.again:
                self._unseen.append((strike, action.strike(self.env, arrived.rank, {})))
        elif strike.manner.again and _begins(arrived) and strike.too_late(moment, world_size=world):
            raise LookupError("the rank's life began too late for it to be told")

    def look(self) -> None:
        """Have those that struck again taken effect?"""
        for strike, applied in list(self._unseen):
            try:
                seen = strike.fault.action.observed(self.env, applied)
            except LookupError as error:
                seen = {"rank": applied["rank"], "missed": str(error)}
            if seen is not None:
                self._unseen.remove((strike, applied))
                self._tell(strike, seen)

    def _tell(self, strike: Strike, evidence: Mapping[str, Any]) -> None:
        """All of them each time: of what a fault has to show, the newest word counts."""
        strike.again.append(dict(evidence))
        self.writer.write("fault.again", fault=strike.index, evidence={"again": list(strike.again)})


def _begins(arrived: Arrived) -> bool:
    """Whether it is the first step of a life, or the first after a rollback in the middle of one."""
    return not arrived.n or bool((arrived.record or {}).get("loaded"))
