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
from chaoskit.analysis.record.column import first_apart
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.record.steps import LOSS
from chaoskit.analysis.reference.reference import Reference

#: As many steps of every rank must equal those of the reference, beyond the last fault.
STEPS = 8
#: A fault or a resume within as many steps of the beginning of an epoch may concern the epoch after that one, too.
NEAR = 2


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
    `least` steps and through its next save, of which every rank made what the reference made, and through the beginning
    of the epoch after if it was struck or resumed near the beginning of one. Every step and every save recorded since
    then must be equal, also those after that; a save that is still open is the end.
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
    counts = [_equal(lifetime, rank, base, since, timeline) for rank, lifetime in inc.ranks.items()]
    limits = [_saved(lifetime, rank, base, since, reference) for rank, lifetime in inc.ranks.items()]
    known = [*counts, *limits]
    save = next((at for at in reference.saves if at > since), None)
    if save is None or None in known:
        return None
    reached = min(limit for limit in known if limit is not None)
    every = {one.n for own in reference.controls[0].incarnations[0].ranks.values() for one in own.saves}
    least_end = max(since + least, save + 1, _epoch_begun(history, timeline, reference, since))
    end = next((at for at in range(reached, least_end - 1, -1) if at not in every), None)
    return Convergence(inc.index, base, since, end) if end is not None else None


def _epoch_begun(history: History, timeline: Timeline, reference: Reference, since: int) -> int:
    """The position at which `STEPS` of the epoch after are done, if the run was struck or resumed near the beginning of
    an epoch, the end if there is none; else 0. What a resume forgets of its place in the data may show only then."""
    first = history.window.first_launch if history.window is not None else 0
    last = history.incarnations[-1]
    points = {since}
    for inc in history.incarnations:
        base = timeline.base(inc.index)
        if base is None or inc.launch < first:
            continue
        if inc is not last:
            points.update(base + len(lifetime.steps) for lifetime in inc.ranks.values())
        if inc is last or inc.launch > first:
            points.add(base)
    starts = [start for start in reference.epochs if start > 0]
    near = [start for start in starts if any(abs(start - point) <= NEAR for point in points)]
    if not near:
        return 0
    return next((start + STEPS for start in starts if start > max(since, *near)), reference.steps)


def unequal(
    history: History,
    reference: Reference,
    *,
    incarnation: int,
    base: int,
    before: float = inf,
    to_end: bool = False,
) -> str:
    """In what an incarnation that must begin at position `base` differs from the reference in its steps before a time,
    in words that follow 'the run'; empty if in nothing. With `to_end`, it must take the last step and make the same
    saves."""
    timeline = Timeline(history, reference)
    if (departure := timeline.departure) is not None:
        names = ", ".join(sorted(departure.values))
        return f"rests on a record that differs from the reference at step {departure.step} in {names}"
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
        if count == len(lifetime.steps) and not to_end:
            count = min(count, _whole(lifetime, rank, base, timeline))
        apart = [(at, name) for name, at in _apart(lifetime, rank, base, base, base + count, timeline)]
        if apart:
            at, name = min(apart)
            return f"differs from the reference at step {at}, rank {rank}, in {name}"
        if to_end and (_saved(lifetime, rank, base, base, reference) or 0) < len(expected):
            return f"saved something else than the reference on rank {rank}"
    return ""


def _over(fault: FaultRecord, last: float) -> float:
    """When the fault had done all that it does. What was put back after the last step changed no step."""
    healed = fault.healed if fault.healed is not None and fault.healed <= last else None
    times = (fault.requested, fault.applied, fault.observed, healed, struck_at(fault))
    return max((t for t in times if t is not None), default=0.0)


def _equal(lifetime: RankLifetime, rank: int, base: int, since: int, timeline: Timeline) -> int | None:
    """The position that the rank has reached, if every step after position `since` is the reference's, in each
    component and in its losses; else None."""
    last, expected = base + len(lifetime.steps), timeline.expected(0).get(rank)
    if expected is None or last > len(expected):
        return None
    last = base + _whole(lifetime, rank, base, timeline)
    return last if not any(_apart(lifetime, rank, base, since, last, timeline)) else None


def _whole(lifetime: RankLifetime, rank: int, base: int, timeline: Timeline) -> int:
    """How many of its steps are whole in the record. What a device computes of a step is recorded as the next one
    begins, so that the last one may lack it."""
    count = len(lifetime.steps)
    expected = timeline.expected(0)[rank]
    if not count or base + count > len(expected):
        return count
    for name in [*(name for name in expected.columns if name in timeline.comparable), LOSS]:
        own, other = lifetime.steps.column(name), expected.column(name)
        if other is not None and other[base + count - 1] and (own is None or not own[-1]):
            return count - 1
    return count


def _apart(
    lifetime: RankLifetime, rank: int, base: int, since: int, last: int, timeline: Timeline
) -> Iterator[tuple[str, int]]:
    """The components, and the losses, that are not the reference's in the steps after position `since` to `last`, each
    with the first such step."""
    steps, expected = lifetime.steps, timeline.expected(0)[rank]
    if not steps.is_whole or lifetime.errors:
        yield "the record itself", since + 1
        return
    for name in [*(name for name in expected.columns if name in timeline.comparable), LOSS]:
        own, other = steps.column(name), expected.column(name)
        if other is None:
            continue
        own = own if own is not None else [None] * len(steps)
        for place in first_apart(own[since - base : last - base], other[since:last]):
            yield name, since + place + 1


def _saved(lifetime: RankLifetime, rank: int, base: int, since: int, reference: Reference) -> int | None:
    """The position up to which the rank made the saves of the reference past position `since`, whole and with the same
    content; None if it made others, or left one out. Content in which the controls differ, such as a date, is left out,
    and so are paths, which are recorded in part only: each run has a directory of its own.
    A save that is still being written, or that the rank had not come to, is the limit."""
    reached = base + len(lifetime.steps)
    own = [save for save in lifetime.saves if base + save.n > since]
    controls = [
        [save for save in one.incarnations[0].ranks[rank].saves if save.n > since] for one in reference.controls
    ]
    if any(save.ended is None and base + save.n <= since for save in lifetime.saves):
        return None
    if any(len(own) > len(each) for each in controls):
        return None
    limit = reached
    for save, *due in zip(own, *controls, strict=False):
        if any((base + save.n, save.full) != (each.n, each.full) for each in due):
            return None
        first = due[0].content
        firm = [
            key
            for key, value in first.items()
            if "/" not in value and all(each.content.get(key) == value for each in due)
        ]
        if any(save.content.get(key) != first[key] for key in firm):
            return None
        if save.ended is None:
            limit = min(limit, base + save.n - 1)
        elif not save.ok:
            return None
    for each in controls:
        missing = min((save.n for save in each[len(own) :]), default=None)
        if missing is not None and missing < reached:
            return None
        if missing is not None:
            limit = min(limit, missing - 1)
    return limit
