"""`Timeline`: the steps of a run under their true numbers, and which execution of each was kept.

An incarnation's own count begins at its own start. The timeline finds by alignment at which position it started
(its base), so that its step n is the true step base + n.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from chaoskit.alignment import Alignment, Index
from chaoskit.history import FaultRecord, History, Incarnation
from chaoskit.parting import Parting
from chaoskit.reference import Reference
from chaoskit.segment import Execution, Segment, without
from chaoskit.steps import LOSS, Steps, first_apart

#: How many steps of an incarnation are looked at to tell positions apart that its first step does not.
LOOKAHEAD = 50


def struck_at(fault: FaultRecord) -> float | None:
    """When the fault began to act, as early as is known; it was requested before the run began."""
    return fault.applied if fault.applied is not None else fault.observed


@dataclass(frozen=True)
class Start:
    """Where an incarnation started: its base (None where nothing tells), and each rank's own alignment."""

    incarnation: int
    base: int | None
    ranks: Mapping[int, Alignment]

    @property
    def apart(self) -> tuple[int, ...]:
        """The ranks that stand somewhere else than the base says."""
        return tuple(
            rank
            for rank, own in self.ranks.items()
            if self.base is not None and own.candidates and self.base not in own.candidates
        )

    @property
    def trusted(self) -> bool:
        """Whether the model of every rank is at the base."""
        return self.base is not None and all(own.trusted(self.base) for own in self.ranks.values())

    @property
    def exact(self) -> bool:
        """Whether every component of every rank that can be compared is at the base."""
        return self.trusted and not any(own.off(self.base or 0) for own in self.ranks.values())


class Timeline:
    """See the module. `reference` may be None: the run is then aligned with its own past alone."""

    def __init__(self, history: History, reference: Reference | None) -> None:
        self.history = history
        self.reference = reference
        self.starts: dict[int, Start] = {}
        self.index = Index.of(reference, components=self.comparable) if reference is not None else Index()
        for inc in history.incarnations:
            if inc.first_step is not None:
                start = self._start(inc)
                self.starts[inc.index] = start
                self._learn(inc, start)

    @cached_property
    def departure(self) -> Parting | None:
        """Where the run parted from the reference before any fault struck; None where it did not.

        Such a run shows that the job is not deterministic, whatever the controls said.
        """
        departures = list(self._departures())
        if not departures:
            return None
        step, rank = min((step, rank) for step, rank, _ in departures)
        values = {
            name: v for at, own, found in departures if (at, own) == (step, rank) for name, v in found.items()
        }
        return Parting(
            step,
            rank,
            values,
            f"the run parted from the reference at step {step}, rank {rank}, in {', '.join(sorted(values))}, "
            "before any fault struck: the job is not deterministic, although its controls agreed",
        )

    def _departures(self) -> Iterator[tuple[int, int, dict[str, tuple[str, str]]]]:
        if self.reference is None or not self.reference.deterministic or not self.history.incarnations:
            return
        quiet = min((t for t in map(struck_at, self.history.faults) if t is not None), default=float("inf"))
        expected = dict(self.reference.traces())
        for rank, life in self.history.incarnations[0].ranks.items():
            steps = expected.get(rank, Steps())
            for step, name, pair in departures(life.steps, steps, life.steps.before(quiet)):
                if name not in self.reference.idle:
                    yield step, rank, {name: pair}

    @cached_property
    def comparable(self) -> frozenset[str]:
        """The components that are a measure: the controls, and the run up to its first fault, agree in them."""
        if self.reference is None:
            return frozenset()
        apart = {name for _, _, values in self._departures() for name in values}
        return self.reference.agreeing - apart

    @property
    def bitwise(self) -> bool:
        """Whether the run can be held to the reference to the bit."""
        return self.reference is not None and self.reference.deterministic and self.departure is None

    def _start(self, inc: Incarnation) -> Start:
        likely = self._written_before(inc)
        ranks = {
            rank: self.index.align(life.steps[0], rank, likely=likely)
            for rank, life in inc.ranks.items()
            if life.steps
        }
        offsets = {rank: inc.ranks[rank].steps.numbers[0] - 1 for rank in ranks}
        bases = {
            rank: {position - offsets[rank] for position in own.candidates if position >= offsets[rank]}
            for rank, own in ranks.items()
        }
        return Start(inc.index, self._agree(inc, list(bases.values())), ranks)

    def _agree(self, inc: Incarnation, bases: list[set[int]]) -> int | None:
        """The base of an incarnation, from what its ranks say each: their intersection, else what most of those
        say that loaded something, since a rank at 0 may just not have been restored."""
        said = [own for own in bases if own]
        if not said:
            # The very first life has nothing to resume from, whether or not it looks like the reference.
            return 0 if not self.starts else None
        common = set.intersection(*said)
        if not common:
            votes = Counter(base for own in said for base in own)
            common = {max(votes, key=lambda base: (base > 0, votes[base], base))}
        if len(common) > 1:
            common = self._by_lookahead(inc, common)
        if not self.starts:
            return min(common)
        reached = max((base + max(self._counts(i)) for i, base in self._bases()), default=0)
        return max((base for base in common if base <= reached), default=min(common))

    def _by_lookahead(self, inc: Incarnation, bases: set[int]) -> set[int]:
        score: Counter[int] = Counter(dict.fromkeys(bases, 0))
        for rank, life in inc.ranks.items():
            for record in life.steps[:LOOKAHEAD]:
                found = [own for own in self.index.align(record, rank).columns.values() if own]
                for base in bases:
                    score[base] += sum(base + record.n - 1 in own for own in found)
        best = max(score.values())
        return {base for base, points in score.items() if points == best}

    def _bases(self) -> Iterator[tuple[Incarnation, int]]:
        for index, start in self.starts.items():
            if start.base is not None:
                yield self.history.incarnations[index], start.base

    @staticmethod
    def _counts(inc: Incarnation) -> list[int]:
        return [life.steps.numbers[-1] if life.steps else 0 for life in inc.ranks.values()]

    def _written_before(self, inc: Incarnation) -> Collection[int]:
        """The positions past 0 at which earlier incarnations began to save."""
        return {
            base + save.n
            for earlier, base in self._bases()
            if earlier.index < inc.index
            for life in earlier.ranks.values()
            for save in life.saves
            if base + save.n > 0
        }

    def _learn(self, inc: Incarnation, start: Start) -> None:
        """The run's own past is a measure too: of what came after it had left the reference, or has none."""
        if start.base is None:
            return
        idle = self.reference.idle if self.reference is not None else frozenset[str]()
        for rank, life in inc.ranks.items():
            names = set(life.steps.columns) - idle
            self.index.learn(rank, start.base, life.steps, components=names)

    def base(self, incarnation: int) -> int | None:
        """The position at which the incarnation started; None where it took no step or nothing tells."""
        start = self.starts.get(incarnation)
        return start.base if start is not None else None

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Everything that was executed and whose true number is known, in order of incarnation, rank and step."""
        return tuple(
            Segment(rank, inc.index, life.steps, start, end, base + life.steps.numbers[start])
            for inc, base in self._bases()
            for rank, life in inc.ranks.items()
            for start, end in life.steps.runs()
        )

    @cached_property
    def _by_rank(self) -> dict[int, list[Segment]]:
        """The segments of each rank, in their order."""
        found: dict[int, list[Segment]] = {}
        for one in self.segments:
            found.setdefault(one.rank, []).append(one)
        return found

    @cached_property
    def _kept(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """For every segment, by its place among them, the true steps from and to (exclusive) of which it is the last
        execution."""
        later: dict[int, list[tuple[int, int]]] = {}
        kept = {}
        for number, one in reversed(list(enumerate(self.segments))):
            covered = later.setdefault(one.rank, [])
            kept[number] = tuple(without((one.first, one.last + 1), covered))
            covered.append((one.first, one.last + 1))
        return kept

    @property
    def effective(self) -> Iterator[tuple[Segment, int, int]]:
        """What was kept: segments with the places from and to (exclusive) that no later execution replaced."""
        for number, one in enumerate(self.segments):
            for first, end in self._kept[number]:
                yield one, one.start + first - one.first, one.start + end - one.first

    def kept(self, rank: int, step: int) -> Execution | None:
        """The last execution of a true step; None where the rank never took it."""
        for one in reversed(self._by_rank.get(rank, [])):
            if one.first <= step <= one.last:
                return one.execution(one.start + step - one.first)
        return None

    def missing(self, rank: int, last: int) -> list[int]:
        """The true steps from 1 to `last` that the rank was never seen to take."""
        taken = [(one.first, one.last + 1) for one in self._by_rank.get(rank, [])]
        return [step for first, end in without((1, last + 1), taken) for step in range(first, end)]

    @property
    def executed(self) -> int:
        """How many steps were executed, on all ranks together."""
        return sum(one.end - one.start for one in self.segments)

    @property
    def rolled_back(self) -> int:
        """How many of them a later execution replaced."""
        return self.executed - sum(end - start for _, start, end in self.effective)

    def highest(self, rank: int | None = None) -> int:
        """The highest true step that the rank, or any rank, executed; 0 for none."""
        segments = self.segments if rank is None else self._by_rank.get(rank, [])
        return max((one.last for one in segments), default=0)

    @property
    def unplaced(self) -> tuple[int, ...]:
        """The incarnations that took steps of which no true number is known."""
        return tuple(index for index, start in self.starts.items() if start.base is None)


def departures(steps: Steps, expected: Steps, count: int) -> Iterator[tuple[int, str, tuple[str, str]]]:
    """Where each component, and the loss, of the first `count` steps first is not what was expected: step, name, both.

    What one of the two lacks is no departure: the checks that need it will say so.
    """
    for name in [*steps.columns, LOSS]:
        own, other = steps.column(name), expected.column(name)
        if own is None or other is None:
            continue
        for start, end in steps.runs():
            at = steps.numbers[start] - 1
            stop = min(end, count, start + len(other) - at)
            for place in first_apart(own[start:stop], other[at : at + max(0, stop - start)], limit=len(own)):
                pair = own[start + place], other[at + place]
                if pair[0] and pair[1]:
                    yield at + place + 1, name, (pair[0], pair[1])
                    break
