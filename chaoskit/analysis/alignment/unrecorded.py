"""`Unrecorded`: the last steps of a rank that was killed before it recorded them, although the job took them.

A step belongs to the job as soon as the gradients of all ranks are reduced and the result is saved. A rank may die
between its backward pass and its own record of the step: its batch is in the checkpoint all the same. The result proves
it: what was saved after that step, or what the next incarnation began with, equals the reference to the bit. Without
the gradients of that rank it would not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from chaoskit.analysis.alignment.alignment import PROOF
from chaoskit.analysis.alignment.resume_point import Start
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.reference.divergence import departures
from chaoskit.analysis.reference.reference import Reference

#: How the contents of a checkpoint show a tensor.
_TENSOR = re.compile(r"[0-9a-f]{32}")

#: The values of one file of a checkpoint by key.
_Values = Mapping[str, str]


@dataclass(frozen=True)
class Unrecorded:
    """The true steps from `first` to `last` that `rank` did not record in `incarnation`, and that the job kept.

    `taken` says whether the rank has its share in them: True if what was kept equals the reference, False if it does
    not, None if nothing shows it.
    """

    rank: int
    incarnation: int
    first: int
    last: int
    taken: bool | None


@dataclass(frozen=True)
class Evidence:
    """What a run shows of such steps. `starts` are those of its incarnations, `comparable` the components that can be
    compared with the reference to the bit."""

    history: History
    reference: Reference | None
    starts: Mapping[int, Start]
    comparable: Collection[str]

    def gaps(self) -> Iterator[Unrecorded]:
        """Every gap, by incarnation and rank."""
        for index, start in self.starts.items():
            inc = self.history.incarnations[index]
            if start.base is None:
                continue
            counts = [lifetime.steps.numbers[-1] for lifetime in inc.ranks.values() if lifetime.steps]
            for rank, lifetime in inc.ranks.items():
                first = (lifetime.steps.numbers[-1] if lifetime.steps else 0) + 1
                last = max(*counts, lifetime.reached)
                if lifetime.end is None and last >= first:
                    yield from self._judged(inc, start.base, rank, start.base + first, start.base + last)

    def _judged(self, inc: Incarnation, base: int, rank: int, first: int, last: int) -> Iterator[Unrecorded]:
        """The part of one gap that the job kept; nothing if it took these steps again, or lost them for all ranks."""
        began = next((start for index, start in self.starts.items() if index > inc.index), None)
        saved = dict(self._saved(inc, base, first))
        loaded = self._loaded(inc, first) if began is None else 0
        kept = max([*saved, loaded]) if began is None else began.base or 0
        if (last := min(last, kept)) < first:
            return
        proven = max([loaded, *(position for position, equal in saved.items() if equal)])
        if proven >= last or (began is not None and self._began_with(began, past=first)):
            taken = True
        elif False in saved.values() and self._was_right(inc, base):
            taken = False
        else:
            taken = None
        yield Unrecorded(rank, inc.index, first, last, taken)

    def _saved(self, inc: Incarnation, base: int, first: int) -> Iterator[tuple[int, bool | None]]:
        """The positions from `first` at which every rank that has to save did so, and whether it saved what the
        reference does; None if that cannot be compared."""
        made = {save.n for lifetime in inc.ranks.values() for save in lifetime.saves if base + save.n >= first}
        for n in made:
            whole = {rank for rank, lifetime in inc.ranks.items() if _has_saved(lifetime, n)}
            if self.reference is None or not whole >= set(self.reference.savers(base + n)):
                continue
            compared = []
            for rank in whole:
                files = _written(inc.ranks[rank], n)
                for file, wanted in zip(files, self._wanted(rank, base + n), strict=False):
                    compared += [wanted.items() <= file.items()] if wanted else []
            yield base + n, all(compared) if compared else None

    def _loaded(self, inc: Incarnation, first: int) -> int:
        """The last position from `first` whose checkpoint, as the reference saves it, a later incarnation has read;
        0 if there is none."""
        if self.reference is None:
            return 0
        ranks = [one for later in self.history.incarnations[inc.index + 1 :] for one in later.ranks.values()]
        for position in sorted((at for at in self.reference.saves if at >= first), reverse=True):
            savers = self.reference.savers(position)
            wanted = [file.items() for rank in savers for file in self._wanted(rank, position) if file]
            readers = {
                one.rank
                for one in ranks
                for load in one.loads
                if load.ok and load.n == 0 and any(file <= load.content.items() for file in wanted)
            }
            if len(readers) >= len(savers):
                return position
        return 0

    def _wanted(self, rank: int, position: int) -> list[_Values]:
        """The tensors that training moves, in each file that the reference saves at that position."""
        if self.reference is None or "model" not in self.comparable:
            return []
        controls = [control.incarnations[0].ranks.get(rank) for control in self.reference.controls]
        known = [control for control in controls if control is not None]
        own, *others = [_written(control, position) for control in known]
        if any(len(other) != len(own) for other in others):
            return []
        moving = _moving(known[0])
        return [
            {
                key: value
                for key, value in file.items()
                if key in moving and all(other[number].get(key) == value for other in others)
            }
            for number, file in enumerate(own)
        ]

    def _began_with(self, began: Start, *, past: int) -> bool:
        """Whether every rank of an incarnation began with the model that the reference has there, and with another
        state than before step `past`."""
        if self.reference is None or began.base is None or "model" not in self.comparable:
            return False
        for rank, lifetime in self.history.incarnations[began.incarnation].ranks.items():
            due, before = self.reference.step(rank, began.base + 1), self.reference.step(rank, past)
            if due is None or before is None or not lifetime.steps or lifetime.steps.numbers[0] != 1:
                return False
            own = lifetime.steps[0].components
            same = [name for name in PROOF if name in own and own[name] == due.components.get(name)]
            if "model" not in same or not any(own[name] != before.components.get(name) for name in same):
                return False
        return True

    def _was_right(self, inc: Incarnation, base: int) -> bool:
        """Whether the model and the batches were the reference's on all ranks, as far as they were recorded."""
        if self.reference is None or "model" not in self.comparable:
            return False
        expected = dict(self.reference.traces())
        return all(
            rank in expected
            and not any(
                name in ("model", "optimizer", "batch")
                for _, name, _ in departures(lifetime.steps, expected[rank], len(lifetime.steps), base=base)
            )
            for rank, lifetime in inc.ranks.items()
        )


def _has_saved(lifetime: RankLifetime, n: int) -> bool:
    """Whether a rank saved after its step `n`, and every call of it came to its end."""
    made = [save for save in lifetime.saves if save.n == n]
    return bool(made) and all(save.ok and save.ended is not None for save in made)


def _written(lifetime: RankLifetime, n: int) -> list[_Values]:
    """The contents of the files that a rank saved after its step `n`, in that order."""
    return [save.content for save in lifetime.saves if save.n == n and save.ok and save.content]


def _moving(lifetime: RankLifetime) -> frozenset[str]:
    """The keys of tensors that change from save to save; all tensors of a job that saves once."""
    values: dict[str, set[str]] = {}
    saves = [save for save in lifetime.saves if save.content]
    for save in saves:
        for key, value in save.content.items():
            if _TENSOR.fullmatch(value):
                values.setdefault(key, set()).add(value)
    once = len({save.n for save in saves}) == 1
    return frozenset(key for key, own in values.items() if once or len(own) > 1)
