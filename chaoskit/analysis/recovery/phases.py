"""`Phases`: where the time went between a fault and the next step: detection, teardown, relaunch, load, first step.

A pure function of the record and of a measured recovery. The phases follow one another, and together they are the
recovery time; what cannot be told from its neighbour is part of the phase that follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.recovery.recovery import Recovery

#: In their order, and what each lasts until.
PHASES: Mapping[str, str] = {
    "detection": "the first rank that was not struck, or the launch, ended because of the fault",
    "teardown": "everything of the struck life had ended",
    "relaunch": "its ranks were up again and began to read a checkpoint",
    "load": "the last rank had read it",
    "first step": "the next step was about to be taken",
}


@dataclass(frozen=True)
class Phases:
    """Of fault `fault`, from time `begun` (as in the events): how many `seconds` each phase took, by name, without
    those that did not happen or cannot be told apart. `failed` counts the lifetimes in between that never took a
    step."""

    fault: int
    name: str
    begun: float
    seconds: Mapping[str, float]
    failed: int = 0

    @property
    def total(self) -> float:
        """The recovery time."""
        return sum(self.seconds.values())


def phases(history: History, recoveries: Iterable[Recovery]) -> tuple[Phases, ...]:
    """Those of every fault after which the job began another lifetime, in order; a fault that it rode out has none."""
    found = (_phases(history, one) for one in recoveries)
    return tuple(one for one in found if one is not None)


def _phases(history: History, one: Recovery) -> Phases | None:
    fault = next(each for each in history.faults if each.index == one.fault)
    if one.incarnation is None or one.recovery_seconds is None or fault.observed is None:
        return None
    begun, back = fault.observed, fault.observed + one.recovery_seconds
    again = history.incarnations[one.incarnation]
    ends = {
        **_ends(history, fault, one, again, back),
        "load": _loads(again, back, end=True),
        "first step": back,
    }
    seconds, at = {}, begun
    for name in PHASES:
        if (end := ends.get(name)) is not None:
            end = min(max(end, at), back)
            seconds[name] = end - at
            at = end
    struck = one.struck if one.struck is not None else -1
    return Phases(one.fault, one.name, begun, seconds, failed=max(0, again.index - struck - 1))


def _ends(
    history: History, fault: FaultRecord, one: Recovery, again: Incarnation, back: float
) -> dict[str, float | None]:
    """When the fault had been noticed, when all that it struck had ended, and when the ranks were up again; of a
    rollback, which ends no process, only when it began."""
    reading = _loads(again, back, end=False)
    if again.taken:
        return {"detection": reading if reading is not None else again.start}
    since = fault.evidence.get("since")
    # As `Recovery` counts: from when the fault took effect.
    start = since if isinstance(since, float) else fault.observed or 0.0
    noticed = start + one.noticed_seconds if one.noticed_seconds is not None else None
    ended = [start + one.stopped_seconds] if one.stopped_seconds is not None else []
    struck = history.incarnations[one.struck] if one.struck is not None else None
    if struck is not None and struck.launch != again.launch:
        ended += [
            each.ended for each in history.launches if each.index == struck.launch and each.ended is not None
        ]
    down = max(ended, default=None)
    up = reading if reading is not None else max(lifetime.start for lifetime in again.ranks.values())
    return {"detection": noticed if noticed is not None else down, "teardown": down, "relaunch": up}


def _loads(inc: Incarnation, back: float, *, end: bool) -> float | None:
    """When the ranks began to read a checkpoint before the first step, or when the last of them had; None if they
    read none."""
    loads = [
        load for lifetime in inc.ranks.values() for load in lifetime.loads if load.begun <= back and load.n == 0
    ]
    if end:
        return max((load.ended for load in loads if load.ended is not None), default=None)
    return min((load.begun for load in loads), default=None)
