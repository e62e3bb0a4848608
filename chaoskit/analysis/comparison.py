"""`Comparison`: the run compared with its reference step by step, component by component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from chaoskit.analysis.alignment.global_steps import PLANNED
from chaoskit.analysis.alignment.segment import Execution, Segment
from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.corruption.injected import corruptions
from chaoskit.analysis.record.column import is_constant, values_apart
from chaoskit.analysis.record.steps import LOSS, Steps
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

    `differences` are the first steps that differ in each lifetime of each rank, `first` where each component first
    does: the true step, by (incarnation, rank, component). `absent` maps a component that the reference has to the
    first kept step that lacks it. `unused` are random streams, by the same key, that differ and that nobody draws
    from: they never move, neither in the reference nor in that lifetime, in which all else is equal. They are no
    difference.
    """

    differences: tuple[Difference, ...] = ()
    compared: int = 0
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
    return Comparison(
        tuple(sorted(kept, key=lambda one: one.order)),
        sum(one.end - one.start for one in timeline.segments if one.incarnation not in timeline.resized),
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
            other = other if other is not None else [""] * len(expected)
            at = one.first - 1
            found = values_apart(own[one.start : stop], other[at : at + stop - one.start])
            for place, value, wanted in islice(found, KEPT):
                # What a step lacks altogether is `absent`, unless the reference lacks it too.
                if value and wanted is not None:
                    apart.setdefault(one.start + place, {})[name] = (value, wanted)
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
        columns = [
            one.steps.column(name)
            for one in self.timeline.segments
            if (one.incarnation, one.rank) == (incarnation, rank)
        ]
        columns += [self.timeline.expected(incarnation).get(rank, Steps()).column(name)]
        return all(column is not None and is_constant(column) for column in columns)

    def require(self, one: Segment, start: int, end: int) -> None:
        """What was kept has to be whole; the last record of a rank that was killed may be cut short."""
        expected = self.expected(one)
        end = min(end, start + len(expected) - one.true(start) + 1)
        for name in self.measured(one):
            if name in self.absent or start >= end:
                continue
            own, other = one.steps.column(name), expected.column(name)
            at = one.true(start) - 1
            for place in range(start, end):
                lacks = own is None or not own[place]
                if lacks and other is not None and other[at + place - start]:
                    self.absent[name] = one.execution(place)
                    break
                if own is not None and not lacks and None not in own and "" not in own[start:end]:
                    break
