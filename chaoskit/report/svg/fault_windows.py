"""`FaultWindow`: the steps between which a fault was active, for each lifetime of the ranks that it affected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaoskit.analysis.alignment.timeline import Timeline, struck_at
from chaoskit.analysis.case import Case
from chaoskit.analysis.corruption.injected import corruptions
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import Incarnation


@dataclass(frozen=True)
class FaultWindow:
    """Fault number `fault` was active while the job was between positions `first` and `last`: at one moment (`point`)
    or for a period. `seen`: it was observed to take effect."""

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
        return f"{self.name}: injected {where}{lasted}{'' if self.seen else '; not observed to take effect'}"


def windows(case: Case) -> tuple[FaultWindow, ...]:
    """Return the windows of every injected fault in order; a fault that affected two lifetimes has two."""
    exact = {one.fault: one.step for one in corruptions(case.timeline)}
    found = []
    for fault in case.history.faults:
        if (t := struck_at(fault)) is None:
            continue
        end = fault.healed if fault.healed is not None else t
        step = exact.get(fault.index)
        spans = [(step - 1, step)] if step is not None else _merged(_spans(case.timeline, t, end))
        found += [
            FaultWindow(fault.index, fault.name, first, last, fault.healed is None, fault.observed is not None)
            for first, last in spans
        ]
    return tuple(found)


def _spans(timeline: Timeline, begun: float, ended: float) -> Iterator[tuple[int, int]]:
    """Yield for each lifetime the positions between which its ranks were in that time."""
    known = [inc for inc in timeline.history.incarnations if timeline.base(inc.index) is not None]
    under = [inc for inc in known if inc.start <= ended and _last_step(inc) >= begun]
    # Between two lifetimes: the last position of the previous one.
    before = [inc for inc in known if inc.start <= begun]
    under = under or before[-1:]
    for inc in under:
        yield _first(timeline, inc, begun), _last(timeline, inc, ended)
    if not under:
        yield 0, 1


def _last_step(inc: Incarnation) -> float:
    return max((own.steps.times[-1] for own in inc.ranks.values() if own.steps), default=inc.start)


def _first(timeline: Timeline, inc: Incarnation, t: float) -> int:
    return min(_positions(timeline, inc, t), default=0)


def _last(timeline: Timeline, inc: Incarnation, t: float) -> int:
    return max(_positions(timeline, inc, t), default=0)


def _positions(timeline: Timeline, inc: Incarnation, t: float) -> list[int]:
    """Return the position of each rank at time `t`; ranks without steps are omitted."""
    base = timeline.base(inc.index) or 0
    taken = [(own.steps, own.steps.until(t)) for own in inc.ranks.values() if own.steps]
    return [base + (steps.numbers[count - 1] if count else 0) for steps, count in taken]


def _merged(spans: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Widen each span to at least one step, and merge spans that touch."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((first, max(last, first + 1)) for first, last in spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def active_time(fault: FaultRecord) -> tuple[float, float] | None:
    """Return when the fault began to act and when it ended; None if it was never injected."""
    t = struck_at(fault)
    return None if t is None else (t, max(t, fault.healed if fault.healed is not None else fault.observed or t))
