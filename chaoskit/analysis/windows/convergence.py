"""`converged`: whether a run whose faults are over does again what its reference does, in everything that is recorded.

A deterministic job that equals its reference in every component, in every loss and in what it saved has nothing left
that is recorded and with which it could differ later. State that is not recorded is the reason why a job has to earn
its windows (see `chaoskit.engine.windows.earning`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from chaoskit.analysis.alignment.timeline import Timeline, struck_at
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.rank_lifetime import RankLifetime, Save
from chaoskit.analysis.record.steps import LOSS, first_apart
from chaoskit.analysis.reference.reference import Reference

#: As many steps of every rank must equal those of the reference, beyond the last fault.
STEPS = 8


@dataclass(frozen=True)
class Convergence:
    """Where a run equals its reference again: from the step after position `since` to position `end`, in incarnation
    `incarnation`, which began at position `base`, on every rank. `end` is no position of a save."""

    incarnation: int
    base: int
    since: int
    end: int


def converged(history: History, reference: Reference, *, least: int = STEPS) -> Convergence | None:
    """Where the run equals its reference again, since its last fault; None if it does not, or not for long enough: for
    `least` steps and through its next save, of which every rank made what the reference made. Every step recorded since
    then must be equal, also those after that.
    """
    timeline = Timeline(history, reference)
    if not timeline.starts or timeline.resized or not timeline.bitwise:
        return None
    inc = history.incarnations[-1]
    base = timeline.base(inc.index)
    same_ranks = set(inc.ranks) == set(range(reference.world_size))
    if base is None or not same_ranks or any(launch.index > inc.launch for launch in history.launches):
        return None
    last = max((lifetime.steps.times[-1] for lifetime in inc.ranks.values() if lifetime.steps), default=0.0)
    over = max((_over(fault, last) for fault in history.faults), default=0.0)
    since = max(base, *(base + lifetime.steps.until(over) for lifetime in inc.ranks.values()))
    if not all(_equal(lifetime, rank, base, since, timeline) for rank, lifetime in inc.ranks.items()):
        return None
    reached = base + min(len(lifetime.steps) for lifetime in inc.ranks.values())
    save = next((at for at in reference.saves if at > since), None)
    if save is None:
        return None
    end = next((at for at in range(reached, max(since + least, save + 1) - 1, -1) if at not in reference.saves), None)
    if end is None or not _saved(inc, base, since, end, reference):
        return None
    return Convergence(inc.index, base, since, end)


def unequal(
    history: History, reference: Reference, *, incarnation: int, base: int, before: float = inf, to_end: bool = False
) -> str:
    """In what an incarnation that must begin at position `base` differs from the reference in its steps before a time,
    in words that follow 'the run'; empty if in nothing. With `to_end`, it must take the last step."""
    timeline = Timeline(history, reference)
    if timeline.base(incarnation) != base:
        return f"did not resume from step {base}, but from {timeline.base(incarnation)}"
    inc = history.incarnations[incarnation]
    if set(inc.ranks) != set(range(reference.world_size)):
        return "had other ranks"
    for rank, lifetime in inc.ranks.items():
        expected = timeline.expected(0).get(rank)
        count = lifetime.steps.before(before)
        if expected is None or base + count > len(expected):
            return f"took more steps than the reference on rank {rank}"
        if to_end and base + count != len(expected):
            return f"ended before its last step on rank {rank}"
        for name, at in _apart(lifetime, rank, base, base, base + count, timeline):
            return f"differs from the reference at step {at}, rank {rank}, in {name}"
    return ""


def _over(fault: FaultRecord, last: float) -> float:
    """When the fault had done all that it does. What was put back after the last step changed no step."""
    healed = fault.healed if fault.healed is not None and fault.healed <= last else None
    times = (fault.requested, fault.applied, fault.observed, healed, struck_at(fault))
    return max((t for t in times if t is not None), default=0.0)


def _equal(lifetime: RankLifetime, rank: int, base: int, since: int, timeline: Timeline) -> bool:
    """Whether every step after position `since` is the reference's, in each component and in its losses."""
    last, expected = base + len(lifetime.steps), timeline.expected(0).get(rank)
    if expected is None or last > len(expected):
        return False
    return not any(_apart(lifetime, rank, base, since, last, timeline))


def _apart(
    lifetime: RankLifetime, rank: int, base: int, since: int, last: int, timeline: Timeline
) -> Iterator[tuple[str, int]]:
    """The components, and the losses, that are not the reference's in the steps after position `since` to `last`, each
    with the first such step."""
    steps, expected = lifetime.steps, timeline.expected(0)[rank]
    if list(steps.numbers) != list(range(1, len(steps) + 1)) or lifetime.errors:
        yield "the record itself", since + 1
        return
    for name in [*(name for name in expected.columns if name in timeline.comparable), LOSS]:
        own, other = steps.column(name), expected.column(name)
        if other is None:
            continue
        own = own if own is not None else [None] * len(steps)
        for place in first_apart(own[since - base : last - base], other[since:last]):
            yield name, since + place + 1


def _saved(inc: Incarnation, base: int, since: int, end: int, reference: Reference) -> bool:
    """Whether every rank made the saves of the reference at positions from `since` + 1 to `end`, whole and with the
    same content, and none is still being written. Content in which the controls differ, such as a date, is left out."""
    for rank, lifetime in inc.ranks.items():
        if any(save.ended is None for save in lifetime.saves if save.n <= end - base):
            return False
        own = _between(lifetime, since - base, end - base)
        controls = [_between(one.incarnations[0].ranks[rank], since, end) for one in reference.controls]
        if any(len(own) != len(each) for each in controls) or not all(save.ok for save in own):
            return False
        for save, *due in zip(own, *controls, strict=True):
            if any((save.n + base, save.full) != (each.n, each.full) for each in due):
                return False
            first = due[0].content
            firm = [key for key in first if all(each.content.get(key) == first[key] for each in due)]
            if any(save.content.get(key) != first[key] for key in firm):
                return False
    return True


def _between(lifetime: RankLifetime, since: int, end: int) -> list[Save]:
    """The saves of a lifetime past `since` steps, up to `end`, in the order in which they began."""
    return [save for save in lifetime.saves if since < save.n <= end]
