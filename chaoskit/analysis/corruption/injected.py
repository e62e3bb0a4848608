"""`InjectedCorruption`: a number of the live training state that a fault corrupted, and the true step of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.alignment.timeline import Timeline, struck_at
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import Incarnation


@dataclass(frozen=True)
class InjectedCorruption:
    """What fault number `fault` changed, in the true step `step` of an incarnation, at time `t`: `before` and `after`
    are the first of the elements, to the bit, of a tensor at `where`. `rank` was struck first of `ranks`."""

    fault: int
    name: str
    rank: int
    ranks: tuple[int, ...]
    incarnation: int
    step: int
    t: float
    place: str
    where: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    changed: int

    @property
    def finite(self) -> bool:
        """Whether the corrupted values are finite."""
        return all(map(_is_finite, self.after))

    def __str__(self) -> str:
        whom = "every rank" if len(self.ranks) > 2 else " and ".join(f"rank {rank}" for rank in self.ranks)
        more = f", the first of {self.changed}" if self.changed > 1 else ""
        pair = (
            f" ({show(self.before[0])} became {show(self.after[0])}{more})" if self.before and self.after else ""
        )
        # Where the place is a gradient, `where` names the parameter that it is of.
        gradient = "the gradient of " if self.where and self.place == "gradient" else ""
        return f"{gradient}{self.where or self.place} of {whom} was corrupted in step {self.step}{pair}"


def is_corruption(fault: FaultRecord) -> bool:
    """Whether the fault was observed to change a number of the training."""
    return fault.observed is not None and {"component", "rank", "n"} <= fault.evidence.keys()


def corruptions(timeline: Timeline) -> tuple[InjectedCorruption, ...]:
    """Return the corruptions whose step is known, in the order of the faults."""
    return tuple(
        found
        for fault in timeline.history.faults
        if is_corruption(fault) and (found := _corruption(timeline, fault)) is not None
    )


def _corruption(timeline: Timeline, fault: FaultRecord) -> InjectedCorruption | None:
    evidence = fault.evidence
    inc, t = _where(timeline, evidence, fault), struck_at(fault)
    base = timeline.base(inc.index) if inc is not None else None
    if inc is None or base is None or t is None:
        return None
    others = tuple(int(other["rank"]) for other in evidence.get("others", ()))
    return InjectedCorruption(
        fault.index,
        fault.name,
        int(evidence["rank"]),
        tuple(dict.fromkeys([int(evidence["rank"]), *others])),
        inc.index,
        base + int(evidence["n"]) - inc.taken,
        t,
        str(evidence["component"]),
        str(evidence.get("where", "")),
        tuple(map(str, evidence.get("before", ()))),
        tuple(map(str, evidence.get("after", ()))),
        int(evidence.get("changed", 1)),
    )


def _where(timeline: Timeline, evidence: Mapping[str, Any], fault: FaultRecord) -> Incarnation | None:
    """The incarnation that was struck: the last that the rank had begun by then, and whose steps count as far."""
    t = struck_at(fault) if "since" in evidence else fault.observed
    own = [
        inc
        for inc in timeline.history.incarnations
        if inc.launch == evidence.get("launch", inc.launch) and int(evidence["rank"]) in inc.ranks
        if inc.taken < int(evidence["n"]) and t is not None and inc.ranks[int(evidence["rank"])].start <= t
    ]
    return own[-1] if own else None


def show(value: str, *, digits: int = 6) -> str:
    """A number of the evidence for people: '0x1.8p-4' is 0.09375, '12' is a whole one and stays."""
    if not value.lower().lstrip("+-").startswith("0x"):
        return value
    return f"{float.fromhex(value):.{digits}g}"


def _is_finite(value: str) -> bool:
    try:
        return math.isfinite(float.fromhex(value))
    except (ValueError, OverflowError):
        return True
