"""`Timeline`: the steps of a run under their true numbers, and which execution of each was kept.

An incarnation's own count begins at its own start. The timeline finds by alignment at which position it started
(its base), so that its step n is the true step base + n.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from chaoskit.analysis.alignment.elastic_index import Past, measure
from chaoskit.analysis.alignment.global_steps import GlobalSteps
from chaoskit.analysis.alignment.index import Index
from chaoskit.analysis.alignment.reads import Saved, positions_read
from chaoskit.analysis.alignment.resume_point import Start
from chaoskit.analysis.alignment.segment import Execution, Segment, without
from chaoskit.analysis.alignment.unrecorded import Evidence, Unrecorded
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.steps import Steps
from chaoskit.analysis.record.thin_steps import may_lack
from chaoskit.analysis.reference.divergence import Divergence, departures, diverged
from chaoskit.analysis.reference.reference import Reference

#: How many steps of an incarnation are looked at to tell positions apart that its first step does not.
LOOKAHEAD = 50


def struck_at(fault: FaultRecord) -> float | None:
    """When the fault began to act, as early as is known; it was requested before the run began."""
    # A number is changed some time after the order was given, and a scheduler takes its time with a limit.
    later = "component" in fault.evidence or fault.kind == "time_limit"
    if later and isinstance(since := fault.evidence.get("since"), float):
        return since
    return fault.applied if fault.applied is not None else fault.observed


class Timeline:
    """See the module. `reference` may be None: the run is then aligned with its own past alone.

    `resized` holds, as wholes, the incarnations that have left the bits of the reference for another number of ranks:
    those whose number is another one, and those that go on from a checkpoint which was written after that.
    """

    def __init__(self, history: History, reference: Reference | None) -> None:
        self.history = history
        self.reference = reference
        self.starts: dict[int, Start] = {}
        self.resized: dict[int, GlobalSteps] = {}
        self._wholes: dict[int, GlobalSteps] = {}
        self.index = Index.of(reference, components=self.comparable) if reference is not None else Index()
        for inc in history.incarnations:
            if inc.first_step is not None:
                start = self._start(inc)
                self.starts[inc.index] = start
                self._learn(inc, start)

    @cached_property
    def departure(self) -> Divergence | None:
        """Where the run diverged from the reference before any fault struck; None if it did not.

        Such a run shows that the job is not deterministic, whatever the controls said.
        """
        departures = list(self._departures())
        if not departures:
            return None
        step, rank = min((step, rank) for step, rank, _ in departures)
        values = {
            name: v for at, own, found in departures if (at, own) == (step, rank) for name, v in found.items()
        }
        return Divergence(
            step,
            rank,
            values,
            f"the run diverged from the reference at step {step}, rank {rank}, in {', '.join(sorted(values))}, "
            "before any fault struck: the job is not deterministic, although its controls agreed",
        )

    def _departures(self) -> Iterator[tuple[int, int, dict[str, tuple[str, str]]]]:
        if self.reference is None or not self.reference.deterministic or not self.history.incarnations:
            return
        quiet = min((t for t in map(struck_at, self.history.faults) if t is not None), default=float("inf"))
        if self.history.world_size != self.reference.world_size:
            return
        expected = dict(self.reference.traces())
        for rank, lifetime in self.history.incarnations[0].ranks.items():
            steps = expected.get(rank, Steps())
            for step, name, pair in departures(lifetime.steps, steps, lifetime.steps.before(quiet)):
                if name not in self.reference.idle:
                    yield step, rank, {name: pair}

    @cached_property
    def comparable(self) -> frozenset[str]:
        """The components that can be compared: the controls, and the run up to its first fault, agree in them."""
        if self.reference is None:
            return frozenset()
        apart = {name for _, _, values in self._departures() for name in values}
        return self.reference.agreeing - apart

    @property
    def bitwise(self) -> bool:
        """Whether the run can be compared with the reference to the bit."""
        return self.reference is not None and self.reference.deterministic and self.departure is None

    def _start(self, inc: Incarnation) -> Start:
        plain = {rank: lifetime.steps for rank, lifetime in inc.ranks.items()}
        if self.reference is None or (inc.world_size == self.reference.world_size and not self.resized):
            return self._aligned(inc, self.index, plain)
        past = [Past(one, base, self.global_steps(one.index)) for one, base in self._bases()]
        left = min((base for one, base in self._bases() if one.index in self.resized), default=None)
        global_steps = self.global_steps(inc.index)
        start = self._aligned(
            inc, measure(self.reference, self.comparable, inc.ranks, past, left), global_steps.ranks
        )
        before = left is not None and start.base is not None and start.base <= left
        if before and inc.world_size == self.reference.world_size:
            return self._aligned(inc, self.index, plain)
        self.resized[inc.index] = global_steps
        return start

    def global_steps(self, incarnation: int) -> GlobalSteps:
        """What its ranks did together."""
        if incarnation not in self._wholes:
            inc = self.history.incarnations[incarnation]
            ranks = {rank: lifetime.steps for rank, lifetime in inc.ranks.items()}
            sharded = self.reference.sharded if self.reference is not None else ()
            self._wholes[incarnation] = GlobalSteps.of(ranks, inc.world_size, sharded=sharded)
        return self._wholes[incarnation]

    def _aligned(self, inc: Incarnation, index: Index, lived: Mapping[int, Steps]) -> Start:
        saved = self.saved_before(inc)
        # What was read is the first witness; positions past 0 at which something was saved are likely besides.
        read, likely = positions_read(inc.ranks, saved), {at for at in saved.held if at > 0}
        offsets = {rank: steps.numbers[0] - 1 for rank, steps in lived.items() if steps}
        ranks = {
            rank: index.align(lived[rank][0], rank, likely=likely, read={at + offset for at in read.get(rank, ())})
            for rank, offset in offsets.items()
        }
        bases = {
            rank: {position - offsets[rank] for position in own.candidates if position >= offsets[rank]}
            for rank, own in ranks.items()
        }
        return Start(inc.index, self._agree(index, lived, list(bases.values())), ranks)

    def _agree(self, index: Index, lived: Mapping[int, Steps], bases: list[set[int]]) -> int | None:
        """The base of an incarnation, from what its ranks say each: their intersection, else what most of those
        say that loaded something, since a rank at 0 may just not have been restored."""
        said = [own for own in bases if own]
        if not said:
            # The very first lifetime has nothing to resume from, whether or not it looks like the reference.
            return 0 if not self.starts else None
        common = set.intersection(*said)
        if not common:
            votes = Counter(base for own in said for base in own)
            common = {max(votes, key=lambda base: (base > 0, votes[base], base))}
        if len(common) > 1:
            common = self._by_lookahead(index, lived, common)
        if not self.starts:
            return min(common)
        reached = max((base + max(self._counts(i)) for i, base in self._bases()), default=0)
        return max((base for base in common if base <= reached), default=min(common))

    @staticmethod
    def _by_lookahead(index: Index, lived: Mapping[int, Steps], bases: set[int]) -> set[int]:
        score: Counter[int] = Counter(dict.fromkeys(bases, 0))
        for rank, steps in lived.items():
            for record in steps[:LOOKAHEAD]:
                found = [own for own in index.align(record, rank).columns.values() if own]
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
        return [lifetime.steps.numbers[-1] if lifetime.steps else 0 for lifetime in inc.ranks.values()]

    def saved_before(self, inc: Incarnation) -> Saved:
        """What any rank of an earlier incarnation began to save, by position."""
        return Saved(
            (base + save.n, earlier.world_size, save)
            for earlier, base in self._bases()
            if earlier.index < inc.index
            for save in sorted(
                (save for lifetime in earlier.ranks.values() for save in lifetime.saves), key=lambda one: one.begun
            )
        )

    def _learn(self, inc: Incarnation, start: Start) -> None:
        """The run's own past is a measure too: of what came after it had left the reference, or has none."""
        if start.base is None or inc.index in self.resized:
            return
        idle = self.reference.idle if self.reference is not None else frozenset[str]()
        for rank, lifetime in inc.ranks.items():
            names = set(lifetime.steps.columns) - idle
            self.index.learn(rank, start.base, lifetime.steps, components=names)
            if lifetime.halted is not None:
                about = Steps()
                about.append(lifetime.halted)
                self.index.learn(rank, start.base, about, components=names)
        if self.reference is None:
            return
        expected = dict(self.reference.traces())
        gone_by_rank = diverged(inc.ranks, expected, base=start.base, comparable=self.comparable)
        known = _last_known(inc, expected, start.base) if gone_by_rank else 0
        for rank, gone in gone_by_rank.items():
            # Each step is looked at as it begins: what the last one left behind was seen by nobody.
            steps = inc.ranks[rank].steps
            for name in gone:
                self.index.forget(rank, name, start.base + inc.ranks[rank].reached)
                for place in range(len(steps)) if may_lack(name, steps) else ():
                    position = start.base + steps.numbers[place] - 1
                    if position > known and steps.is_thin(place):
                        self.index.forget(rank, name, position)

    @cached_property
    def unrecorded(self) -> tuple[Unrecorded, ...]:
        """The steps that the job kept and that a rank was killed before it recorded."""
        return tuple(Evidence(self.history, self.reference, self.starts, self.comparable).gaps())

    @cached_property
    def _halted(self) -> Mapping[tuple[int, int], Steps]:
        """The steps of ranks that were killed as they were about to take a step which others took and saved: they have
        taken it, as far as the job goes. Their gradients and their batch are in it."""
        found = {}
        for gap in self.unrecorded:
            lifetime, base = self.history.incarnations[gap.incarnation].ranks[gap.rank], self.base(gap.incarnation)
            halted = lifetime.halted
            if halted is not None and gap.taken is not False and (base or 0) + halted.n <= gap.last:
                steps = lifetime.steps.part(0, len(lifetime.steps))
                steps.append(halted)
                found[gap.incarnation, gap.rank] = steps
        return found

    def base(self, incarnation: int) -> int | None:
        """The position at which the incarnation started; None if it took no step or nothing tells."""
        start = self.starts.get(incarnation)
        return start.base if start is not None else None

    def steps(self, incarnation: int) -> Mapping[int, Steps]:
        """What its ranks did; of one that is resized, in terms of the whole."""
        if incarnation in self.resized:
            return self.resized[incarnation].ranks
        ranks = self.history.incarnations[incarnation].ranks
        return {rank: self._halted.get((incarnation, rank), lifetime.steps) for rank, lifetime in ranks.items()}

    def expected(self, incarnation: int) -> Mapping[int, Steps]:
        """What the reference has for its ranks, in the same terms; without a reference nothing."""
        if self.reference is None:
            return {}
        if incarnation not in self.resized:
            return dict(self.reference.traces())
        global_steps = self.reference.global_steps
        return {
            rank: global_steps.rank(rank, local=global_steps.local) for rank in self.resized[incarnation].ranks
        }

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Everything that was executed and whose true number is known, in order of incarnation, rank and step."""
        return tuple(
            Segment(rank, inc.index, steps, start, end, base + steps.numbers[start])
            for inc, base in self._bases()
            for rank, steps in self.steps(inc.index).items()
            for start, end in steps.runs()
        )

    def _world(self, one: Segment) -> int:
        return self.history.incarnations[one.incarnation].world_size

    @cached_property
    def _kept(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For every segment, by its place among them, the true steps from and to (exclusive) of which it is the last
        execution: by that rank, or, where there was another number of them, by any."""
        by_rank: dict[int, list[tuple[int, int]]] = {}
        by_world: dict[int, set[tuple[int, int]]] = {}
        kept = []
        for one in reversed(self.segments):
            own, span = self._world(one), (one.first, one.last + 1)
            others = [other for world, spans in by_world.items() if world != own for other in spans]
            kept.append(tuple(without(span, [*by_rank.get(one.rank, []), *others])))
            by_rank.setdefault(one.rank, []).append(span)
            by_world.setdefault(own, set()).add(span)
        return tuple(reversed(kept))

    @property
    def effective(self) -> Iterator[tuple[Segment, int, int]]:
        """What was kept: segments with the places from and to (exclusive) that no later execution replaced."""
        for number, one in enumerate(self.segments):
            for first, end in self._kept[number]:
                yield one, one.start + first - one.first, one.start + end - one.first

    def kept(self, rank: int, step: int) -> Execution | None:
        """The last execution of a true step; None if the rank never took it, or others have taken it again."""
        for number, one in self._by_rank.get(rank, []):
            if any(first <= step < end for first, end in self._kept[number]):
                return one.execution(one.start + step - one.first)
        return None

    @cached_property
    def _by_rank(self) -> dict[int, list[tuple[int, Segment]]]:
        """The segments of each rank and their places, the last first."""
        found: dict[int, list[tuple[int, Segment]]] = {}
        for number, one in reversed(list(enumerate(self.segments))):
            found.setdefault(one.rank, []).append((number, one))
        return found

    def missing(self, rank: int, last: int) -> list[int]:
        """The true steps from 1 to `last` that the rank did not take, as far as is known, nor all ranks of another
        world."""
        taken = [(one.first, one.last + 1) for _, one in self._by_rank.get(rank, [])]
        taken += [(one.first, one.last + 1) for one in self.unrecorded if one.rank == rank and one.taken]
        return [step for a, b in without((1, last + 1), [*taken, *self._elsewhere]) for step in range(a, b)]

    @cached_property
    def _elsewhere(self) -> list[tuple[int, int]]:
        """The true steps from and to (exclusive) that all ranks took of a number other than the reference's."""
        usual = self.reference.world_size if self.reference is not None else self.history.world_size
        found = []
        for inc, base in self._bases():
            if inc.world_size == usual or not set(range(inc.world_size)) <= set(inc.ranks):
                continue
            span = (base + 1, base + max(self._counts(inc)) + 1)
            own = [[(base + steps.numbers[a], base + steps.numbers[b - 1] + 1) for a, b in steps.runs()]
                   for steps in self.steps(inc.index).values()]  # fmt: skip
            found += without(span, [gap for spans in own for gap in without(span, spans)])
        return found

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
        if rank is None:
            return max((one.last for one in self.segments), default=0)
        own = [one.last for _, one in self._by_rank.get(rank, [])]
        own += [one.last for one in self.unrecorded if one.rank == rank and one.taken]
        return max([*own, *(end - 1 for _, end in self._elsewhere)], default=0)

    @property
    def unplaced(self) -> tuple[int, ...]:
        """The incarnations that took steps of which no true number is known."""
        return tuple(index for index, start in self.starts.items() if start.base is None)


def _last_known(inc: Incarnation, expected: Mapping[int, Steps], base: int) -> int:
    """The last position, before an incarnation is seen to leave the reference, at which each of its ranks recorded its
    state."""
    known = []
    for rank, lifetime in inc.ranks.items():
        steps = lifetime.steps
        found = departures(steps, expected.get(rank, Steps()), len(steps), base=base)
        first = min((step for step, _, _ in found), default=None)
        place = (steps.past(first - base) if first is not None else len(steps)) - 2
        while place > 0 and steps.is_thin(place):
            place -= 1
        known.append(base + steps.numbers[place] - 1 if place >= 0 else base)
    return min(known, default=base)
