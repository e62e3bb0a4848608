"""`Comparison`: the run compared with its reference step by step, component by component."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from chaoskit.analysis.alignment.global_steps import PLANNED
from chaoskit.analysis.alignment.segment import Execution, Segment
from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.corruption.injected import corruptions
from chaoskit.analysis.record.steps import LOSS, Steps
from chaoskit.analysis.record.thin_steps import may_lack, rests, values_known_apart, whole_places
from chaoskit.analysis.reference.reference import Reference

#: How many differing steps of one segment are kept: after the first one all others differ.
KEPT = 100


@dataclass(frozen=True)
class Difference:
    """One executed step that differs from the reference: `values` maps `loss`, or a component, to what the run had
    and what the reference has. A step past the reference's last one has the value `steps`."""

    execution: Execution
    values: Mapping[str, tuple[str, str]]

    @property
    def order(self) -> tuple[int, int, int]:
        """Earliest first: by incarnation, step and rank."""
        return self.execution.incarnation, self.execution.step, self.execution.rank


@dataclass(frozen=True)
class Comparison:
    """`compared` counts the executed steps that were looked at, without those that were taken at another world size: of
    these only what is planned is compared (see `global_steps`). `names` is what was compared.
    The state of `thin` of them was left out of the record (`--record-every`), of `unseen`, a rank of an incarnation, in
    every step.

    `differences` are the first steps that differ in each lifetime of each rank, `first` where each component first
    does: the true step, by (incarnation, rank, component). `absent` maps a component that the reference has to the
    first kept step that lacks it. `unused` are random streams, by the same key, that differ and that nobody draws
    from: they never move, neither in the reference nor in that lifetime, in which all else is equal. They are no
    difference.
    """

    differences: tuple[Difference, ...] = ()
    compared: int = 0
    thin: int = 0
    unseen: tuple[int, int] | None = None
    names: frozenset[str] = frozenset()
    absent: Mapping[str, Execution] = field(default_factory=dict)
    first: Mapping[tuple[int, int, str], int] = field(default_factory=dict)
    unused: frozenset[tuple[int, int, str]] = frozenset()


def compare(timeline: Timeline, reference: Reference) -> Comparison:
    """Every executed step, kept or rolled back, of which the true number is known; but not what was rolled back of the
    steps that a fault of ours had corrupted.

    Only what the reference can measure is compared: all of it, or, where the controls differ, the components in
    which they agree.
    """
    seen = _Seen(timeline)
    for one in timeline.segments:
        if (clean := seen.uncorrupted(one)) is not None:
            seen.compare(clean)
    for one, start, end in timeline.effective:
        seen.require(one, start, end)
    unused = seen.unused()
    lifetimes = {(incarnation, rank) for incarnation, rank, _ in unused}
    kept = [one for one in seen.differences if (one.execution.incarnation, one.execution.rank) not in lifetimes]
    executed = 0
    whole: dict[tuple[int, int], int] = {}
    for one in (one for one in timeline.segments if one.incarnation not in timeline.resized):
        executed += one.end - one.start
        key = one.incarnation, one.rank
        whole[key] = whole.get(key, 0) + one.end - one.start - seen.thin(one)
    return Comparison(
        tuple(sorted(kept, key=lambda one: one.order)),
        executed,
        executed - sum(whole.values()),
        min((key for key, count in whole.items() if not count), default=None),
        frozenset(seen.names),
        seen.absent,
        {key: step for key, step in seen.first.items() if key not in unused},
        unused,
    )


class _Seen:
    """What has been compared so far."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.struck: dict[int, int] = {}
        for each in corruptions(timeline):
            self.struck[each.incarnation] = min(each.step, self.struck.get(each.incarnation, each.step))
        # Up to where each segment was kept.
        self.kept = (
            {(one.incarnation, one.rank, one.start): end for one, _, end in timeline.effective}
            if self.struck
            else {}
        )
        self._expected: dict[int, Mapping[int, Steps]] = {}
        self.differences: list[Difference] = []
        self.names: set[str] = set()
        self.absent: dict[str, Execution] = {}
        self.first: dict[tuple[int, int, str], int] = {}

    def expected(self, one: Segment) -> Steps:
        """What the reference has for the rank of a segment."""
        if one.incarnation not in self._expected:
            self._expected[one.incarnation] = self.timeline.expected(one.incarnation)
        return self._expected[one.incarnation].get(one.rank, Steps())

    def measured(self, one: Segment) -> list[str]:
        """What of a segment can be compared: components, and the losses."""
        expected = self.expected(one)
        names = [name for name in expected.columns if name in self.timeline.comparable]
        if one.incarnation in self.timeline.resized:
            return [name for name in names if name in PLANNED]
        losses = self.timeline.bitwise and (expected.column(LOSS) or one.steps.column(LOSS))
        return [*names, *([LOSS] if losses else [])]

    def thin(self, one: Segment) -> int:
        """Of how many steps of a segment the run, or the reference, left out the state."""
        own, due = one.steps.thin, self.expected(one).thin
        if not due:
            return own.count(1, one.start, one.end)
        at = one.first - 1 - one.start
        return sum(
            bool((own and own[place]) or (due and place + at < len(due) and due[place + at]))
            for place in range(one.start, one.end)
        )

    def uncorrupted(self, one: Segment) -> Segment | None:
        """A segment without what our corruption spoilt in it and the job took back."""
        step = self.struck.get(one.incarnation)
        if step is None or step > one.last:
            return one
        kept = self.kept.get((one.incarnation, one.rank, one.start), one.start)
        end = max(kept, one.start + step - one.first)
        return replace(one, end=end) if end > one.start else None

    def compare(self, one: Segment) -> None:
        """The columns of a segment beside those of the reference."""
        expected = self.expected(one)
        stop = max(one.start, min(one.end, one.start + len(expected) - one.first + 1))
        apart: dict[int, dict[str, tuple[str, str]]] = {}
        for name in self.measured(one):
            own, other = one.steps.column(name), expected.column(name)
            if own is None:
                continue
            self.names.add(name)
            at = one.first - 1
            found = values_known_apart(name, one.steps, expected, start=one.start, at=at, count=stop - one.start)
            # What a step lacks altogether is `absent`, unless the reference lacks it too.
            absent = "" if other is None else None
            pairs = ((place, mine, due if due is not None else absent) for place, mine, due in found)
            both = ((place, mine, due) for place, mine, due in pairs if mine and due is not None)
            for place, mine, due in islice(both, KEPT):
                apart.setdefault(one.start + place, {})[name] = (mine, due)
                self.first.setdefault((one.incarnation, one.rank, name), one.true(one.start + place))
        if stop < one.end:
            apart[stop] = {"steps": ("taken", "not taken")}
        self.differences += [Difference(one.execution(place), found) for place, found in apart.items()]

    def unused(self) -> frozenset[tuple[int, int, str]]:
        """The streams that make no difference; none of an incarnation in which anything else differs."""
        found: set[tuple[int, int, str]] = set()
        for incarnation in {key[0] for key in self.first}:
            own = {key for key in self.first if key[0] == incarnation}
            past = any("steps" in d.values for d in self.differences if d.execution.incarnation == incarnation)
            if not past and all(self._rests(*key) for key in own):
                found |= own
        return frozenset(found)

    def _rests(self, incarnation: int, rank: int, name: str) -> bool:
        """Whether it is a random stream that never moves. (One that is put back after each use does not, either.)"""
        if not name.startswith("rng."):
            return False
        own = [one.steps for one in self.timeline.segments if (one.incarnation, one.rank) == (incarnation, rank)]
        return all(rests(name, steps) for steps in (*own, self.timeline.expected(incarnation).get(rank, Steps())))

    def require(self, one: Segment, start: int, end: int) -> None:
        """What was kept has to be whole; the last record of a rank that was killed may be cut short."""
        expected = self.expected(one)
        end = min(end, start + len(expected) - one.true(start) + 1)
        for name in self.measured(one):
            if name in self.absent or start >= end:
                continue
            own, other = one.steps.column(name), expected.column(name)
            at = one.true(start) - 1
            thin = may_lack(name, one.steps)
            for place in range(start, end) if not thin else _without_value(one.steps, own, start, end):
                gone = own is None or not own[place]
                if gone and other is not None and other[at + place - start]:
                    self.absent[name] = one.execution(place)
                    break
                if own is not None and not gone and None not in own and "" not in own[start:end]:
                    break


def _without_value(steps: Steps, column: Sequence[str | None] | None, start: int, end: int) -> Iterator[int]:
    """The places, of those whose step is not thin, at which a component has no value."""
    values = list(column[start:end]) if column is not None else [None] * (end - start)
    return (start + place for place in whole_places(steps, start=start, count=end - start) if not values[place])
