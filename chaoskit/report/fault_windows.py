"""`Window`: the steps between which a fault acted, in every life of the ranks that was under it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaoskit.checks.check import Case
from chaoskit.corruption import corruptions
from chaoskit.history import FaultRecord, Incarnation
from chaoskit.timeline import Timeline, struck_at


@dataclass(frozen=True)
class Window:
    """Fault number `fault` acted while the job was between positions `first` and `last`: at one moment (`point`), or as
    long as it lasted. `seen` says that it was observed to take effect."""

    fault: int
    name: str
    first: int
    last: int
    point: bool
    seen: bool

    def __str__(self) -> str:
        where = (
            f"in step {self.last}" if self.last - self.first == 1 else f"in steps {self.first + 1} to {self.last}"
        )
        lasted = "" if self.point else ", until it was healed"
        return f"{self.name}: struck {where}{lasted}{'' if self.seen else '; it was not seen to take effect'}"


def windows(case: Case) -> tuple[Window, ...]:
    """Those of every fault that struck, in the order of the faults; of one that acted in two lives, two."""
    exact = {one.fault: one.step for one in corruptions(case.timeline)}
    found = []
    for fault in case.history.faults:
        if (t := struck_at(fault)) is None:
            continue
        end = fault.healed if fault.healed is not None else t
        step = exact.get(fault.index)
        spans = [(step - 1, step)] if step is not None else _merged(_spans(case.timeline, t, end))
        found += [
            Window(fault.index, fault.name, first, last, fault.healed is None, fault.observed is not None)
            for first, last in spans
        ]
    return tuple(found)


def _spans(timeline: Timeline, begun: float, ended: float) -> Iterator[tuple[int, int]]:
    """The positions between which the ranks of each life were in that time."""
    known = [inc for inc in timeline.history.incarnations if timeline.base(inc.index) is not None]
    under = [inc for inc in known if inc.start <= ended and _last_sign(inc) >= begun]
    # Between two lives: at what the one before had come to.
    before = [inc for inc in known if inc.start <= begun]
    under = under or before[-1:]
    for inc in under:
        yield _first(timeline, inc, begun), _last(timeline, inc, ended)
    if not under:
        yield 0, 1


def _last_sign(inc: Incarnation) -> float:
    return max((life.steps.times[-1] for life in inc.ranks.values() if life.steps), default=inc.start)


def _first(timeline: Timeline, inc: Incarnation, t: float) -> int:
    return min(_positions(timeline, inc, t), default=0)


def _last(timeline: Timeline, inc: Incarnation, t: float) -> int:
    return max(_positions(timeline, inc, t), default=0)


def _positions(timeline: Timeline, inc: Incarnation, t: float) -> list[int]:
    """How far each rank that steps at all had come by then."""
    base = timeline.base(inc.index) or 0
    taken = [(life.steps, life.steps.until(t)) for life in inc.ranks.values() if life.steps]
    return [base + (steps.numbers[count - 1] if count else 0) for steps, count in taken]


def _merged(spans: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """At least a step wide, and those that touch as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((first, max(last, first + 1)) for first, last in spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def stroke(fault: FaultRecord) -> tuple[float, float] | None:
    """When the fault began to act and when it was over; None where it never struck."""
    t = struck_at(fault)
    return None if t is None else (t, max(t, fault.healed if fault.healed is not None else fault.observed or t))
