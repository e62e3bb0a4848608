"""`GlobalSteps`: the steps of an incarnation in terms that do not depend on the number of ranks.

A component that is sharded is the sum of its parts (see `shards`); one that every rank holds alike is what it is on
any of them; the batch is the multiset of the samples of all ranks. What each rank has of its own, such as its streams
of random numbers, remains that rank's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from chaoskit.analysis.record.steps import Steps, values
from chaoskit.analysis.record.thin_steps import places_known_apart
from chaoskit.protocol.fingerprint import of_bytes
from chaoskit.protocol.sharded_hash import whole_of

#: What does not depend on the bits of the training: it is the same at every world size, as long as all goes well.
PLANNED = frozenset({"options", "lr", "batch"})


@dataclass(frozen=True)
class GlobalSteps:
    """What `world_size` ranks did together: `ranks` are the steps of each, with the components of the whole."""

    world_size: int
    ranks: Mapping[int, Steps]

    @classmethod
    def of(cls, ranks: Mapping[int, Steps], world_size: int, *, sharded: Collection[str] = ()) -> GlobalSteps:
        """The whole of these steps, counted as in their incarnation; `sharded` are components of which no rank alone
        has the whole, although its record may not say so."""
        names = {*sharded, *(name for steps in ranks.values() for name in steps.parts)}
        columns = {name: _together(ranks, world_size, _parts(name), whole_of) for name in names}
        columns["batch"] = _together(ranks, world_size, lambda steps: steps.samples, _multiset)
        found = {}
        for rank, steps in ranks.items():
            own = {name: column for name, column in steps.columns.items() if name not in columns}
            placed = {name: [column.get(n) for n in steps.numbers] for name, column in columns.items()}
            own.update({name: column for name, column in placed.items() if any(column)})
            found[rank] = replace(steps, columns=own)
        return cls(world_size, found)

    @cached_property
    def local(self) -> frozenset[str]:
        """The components that each rank has of its own."""
        names = {name for steps in self.ranks.values() for name in steps.columns}
        return frozenset(name for name in names if name.startswith("rng.") or self._differs(name))

    def _differs(self, name: str) -> bool:
        one, *others = self.ranks.values()
        if any(name not in steps.columns for steps in self.ranks.values()):
            return False
        count = min(map(len, (one, *others)))
        return any(any(True for _ in places_known_apart(name, one, other, count=count)) for other in others)

    def rank(self, number: int, *, local: Collection[str]) -> Steps:
        """What a rank of that number has: what all have, and of the `local` components its own, if there is such a
        rank."""
        some = self.ranks.get(number) or self.ranks[min(self.ranks)]
        mine = number in self.ranks
        return replace(some, columns={n: column for n, column in some.columns.items() if mine or n not in local})

    @cached_property
    def losses(self) -> dict[int, float]:
        """The loss of each step by its number: that of which the gradient was taken, the sum over the backward passes
        of a rank and the mean over the ranks; without the steps that were not seen on all of them."""
        found = {}
        for n, texts in _aligned(self.ranks, self.world_size, lambda steps: steps.losses).items():
            numbers = [values(text) for text in texts]
            if all(numbers):
                found[n] = sum(sum(own or ()) for own in numbers) / self.world_size
        return found

    @cached_property
    def samples(self) -> dict[int, int]:
        """How many samples each step consumed; without the steps in which they were not seen on all ranks."""
        rows = _aligned(self.ranks, self.world_size, lambda steps: steps.samples)
        return {n: sum(len(own.split()) for own in row) for n, row in rows.items()}


Column = Sequence[str | None]


def _parts(name: str) -> Callable[[Steps], Column]:
    return lambda steps: steps.parts.get(name, ())


def _aligned(
    ranks: Mapping[int, Steps], world_size: int, column: Callable[[Steps], Column]
) -> dict[int, list[str]]:
    """By the number of a step what all ranks have there; without the steps in which one of them has nothing."""
    if not set(range(world_size)) <= set(ranks):
        return {}
    rows: dict[int, list[str]] = {}
    for rank in range(world_size):
        for n, value in zip(ranks[rank].numbers, column(ranks[rank]), strict=False):
            if value:
                rows.setdefault(n, []).append(value)
    return {n: row for n, row in rows.items() if len(row) == world_size}


def _together(
    ranks: Mapping[int, Steps],
    world_size: int,
    column: Callable[[Steps], Column],
    combine: Callable[[Sequence[str]], str],
) -> dict[int, str]:
    return {n: combine(row) for n, row in _aligned(ranks, world_size, column).items()}


def _multiset(samples: Iterable[str]) -> str:
    """The fingerprint of samples in whatever order."""
    return of_bytes(" ".join(sorted(one for own in samples for one in own.split())).encode())
