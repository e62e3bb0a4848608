"""`RepeatedFaults`: the faults that are applied more than once: to each victim at its own moment, or again whenever the
moment comes again after a rollback or a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.armed_fault import ArmedFault
from chaoskit.environments.environment import Arrived, Environment
from chaoskit.faults.fault import PerRank
from chaoskit.faults.triggers import Moment
from chaoskit.protocol.events import EventWriter


class RepeatedFaults:
    """Those of one run."""

    def __init__(self, env: Environment, writer: EventWriter, reference: Reference | None) -> None:
        self._env = env
        self._writer = writer
        self._reference = reference
        self._faults: list[ArmedFault] = []
        #: Those that were applied again and not observed yet, with what `strike` returned.
        self._unseen: list[tuple[ArmedFault, Mapping[str, Any]]] = []

    @property
    def faults(self) -> list[ArmedFault]:
        """Those that ranks may still have to stop for."""
        return [each for each in self._faults if each.remaining_victims or each.traits.again]

    @property
    def unseen(self) -> bool:
        """Whether an effect is still to be observed."""
        return bool(self._unseen)

    def begin(self, armed: ArmedFault) -> None:
        """Follow a fault that was applied or missed for the first time, if it may come again."""
        if (armed.remaining_victims or armed.traits.again) and armed not in self._faults:
            self._faults.append(armed)

    def arrived(self, arrived: Arrived, moment: Moment) -> None:
        """A rank is at its gate: apply to it each fault whose moment this is."""
        for armed in self.faults:
            if (arrived.launch, arrived.restart) != armed.incarnation:
                armed.remaining_victims.clear()
            try:
                self._apply(armed, arrived, moment)
            except LookupError as error:
                self._record(armed, {"rank": arrived.rank, "missed": str(error)})

    def _apply(self, armed: ArmedFault, arrived: Arrived, moment: Moment) -> None:
        """Raises LookupError where the fault is due and cannot be applied."""
        assert self._reference is not None
        action, world_size = cast(PerRank, armed.fault.action), self._reference.world_size
        if armed.is_due(moment, world_size=world_size, plan=self._reference):
            if arrived.rank in armed.remaining_victims:
                armed.remaining_victims.discard(arrived.rank)
                armed.evidence = action.strike(self._env, arrived.rank, armed.evidence)
            elif armed.traits.again:
                self._unseen.append((armed, action.strike(self._env, arrived.rank, {})))
        elif armed.traits.again and _begins(arrived) and armed.too_late(moment, world_size=world_size):
            raise LookupError("the rank's process began too late for the order")

    def look(self) -> None:
        """Record each repetition that has taken effect."""
        for armed, applied in list(self._unseen):
            try:
                seen = armed.fault.action.observed(self._env, applied)
            except LookupError as error:
                seen = {"rank": applied["rank"], "missed": str(error)}
            if seen is not None:
                self._unseen.remove((armed, applied))
                self._record(armed, seen)

    def _record(self, armed: ArmedFault, evidence: Mapping[str, Any]) -> None:
        """Write all repetitions so far each time: of a fault's evidence, the newest event counts."""
        armed.repetitions.append(dict(evidence))
        self._writer.write("fault.again", fault=armed.index, evidence={"again": list(armed.repetitions)})


def _begins(arrived: Arrived) -> bool:
    """Whether it is the first step of a process, or the first after a rollback within one."""
    return not arrived.n or bool((arrived.record or {}).get("loaded"))
