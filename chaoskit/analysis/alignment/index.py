"""`Index`: which position of the reference does each component of a step match?

An `Index` knows, for every rank and component, at which positions each fingerprint was seen. `Index.align` looks
one step up in it: for each component on its own the set of positions that it matches. Sets, because a constant
learning rate or an RNG that nobody draws from matches many; what is said of a step is said of their intersection.

A position is a number of completed optimizer steps: a step that leads from position 40 to 41 *is at* position 40.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from chaoskit.analysis.alignment.alignment import NOWHERE, Alignment
from chaoskit.analysis.record.column import is_constant, places_of
from chaoskit.analysis.record.steps import Step, Steps


class Uninterrupted(Protocol):
    """What an index is made of: the steps of ranks that began at position 0, so that step n is at n - 1."""

    def traces(self) -> Iterable[tuple[int, Steps]]: ...


@dataclass(frozen=True)
class _Piece:
    """The fingerprints that one component of one rank had at `first` and the positions that follow; None: unknown.

    Where they are not `sure`, a match tells something and a mismatch nothing.
    """

    first: int
    column: Sequence[str | None]
    sure: bool = True

    def find(self, fingerprint: str) -> Iterator[int]:
        """The positions at which it stood."""
        return (self.first + place for place in places_of(self.column, fingerprint))


class Index:
    """Where each fingerprint was seen. Columns are searched where they lie: an index costs next to nothing to make.

    `loose` names components of which each rank has its own and which depend on how many ranks there are.
    """

    def __init__(self, *, loose: Collection[str] = ()) -> None:
        self.loose = frozenset(loose)
        self._pieces: dict[int, dict[str, list[_Piece]]] = {}
        # Equal sets of thousands of positions, of hundreds of ranks, are made once.
        self._sets: dict[tuple[tuple[frozenset[int], ...], frozenset[int]], frozenset[int]] = {}
        self._ranges: dict[tuple[int, int], frozenset[int]] = {}
        self._known: dict[int, dict[str, frozenset[int]]] = {}
        self._unknown: dict[tuple[int, str], set[int]] = {}

    @classmethod
    def of(cls, reference: Uninterrupted, *, components: Collection[str] | None = None) -> Index:
        """An index of the reference, of those components only where some are given."""
        index = cls()
        for rank, steps in reference.traces():
            index.learn(rank, 0, steps, components=components)
        return index

    def learn(
        self,
        rank: int,
        base: int,
        steps: Steps,
        *,
        components: Collection[str] | None = None,
        last: int | None = None,
    ) -> None:
        """Learn what `rank` had in the steps of a lifetime that began at `base`; past the position `last` it may have
        been otherwise."""
        for start, end in steps.runs():
            first = base + steps.numbers[start] - 1
            cut = end if last is None else max(start, min(end, start + last - first + 1))
            for name, column in steps.columns.items():
                if components is None or name in components:
                    everything = start == 0 and cut == len(column)
                    self._put(rank, name, _Piece(first, column if everything else column[start:cut]))
                    self._put(rank, name, _Piece(first + cut - start, column[cut:end], sure=False))

    def forget(self, rank: int, name: str, position: int) -> None:
        """What the component was at `position` is not known any more, until it is learned again: a lifetime came
        there that nobody saw there. What matches there still does."""
        self._unknown.setdefault((rank, name), set()).add(position)
        self._known.pop(rank, None)

    def align(
        self, step: Step, rank: int, *, likely: Collection[int] = (), read: Collection[int] = ()
    ) -> Alignment:
        """Where `step` of `rank` is; `likely` are positions at which a checkpoint is known to have been written, `read`
        those of the checkpoint that was read before it.

        A component that the index does not know of this rank says nothing and is left out.
        """
        positions: dict[str, frozenset[int] | None] = {}
        for name in self._pieces.get(rank, {}):
            fingerprint = step.components.get(name)
            positions[name] = None if fingerprint is None else self.where(rank, name, fingerprint)
        return Alignment(rank, positions, self._known_of(rank), frozenset(likely), self.loose, frozenset(read))

    def where(self, rank: int, name: str, fingerprint: str) -> frozenset[int]:
        """The positions at which the component of the rank had this fingerprint."""
        return self._union(
            self._range(piece)
            if piece.column[0] == fingerprint and is_constant(piece.column)
            else frozenset(piece.find(fingerprint))
            for piece in self._pieces.get(rank, {}).get(name, ())
        )

    def base_of(self, step: Step, rank: int, *, likely: Collection[int] = ()) -> int | None:
        """The position at which an incarnation began whose record `step` is, told from that record alone.

        None where the record matches nothing or nothing tells the positions apart. For use while a run goes on;
        afterwards `Timeline` knows better, as it sees all ranks and the steps that follow.
        """
        position = self.align(step, rank, likely=likely).position
        return None if position is None else position - (step.n - 1)

    def _put(self, rank: int, name: str, piece: _Piece) -> None:
        if piece.column:
            self._pieces.setdefault(rank, {}).setdefault(name, []).append(piece)
            self._known.pop(rank, None)
            if piece.sure and (rank, name) in self._unknown:
                self._unknown[rank, name] -= self._range(piece)

    def _known_of(self, rank: int) -> dict[str, frozenset[int]]:
        """The positions at which each component of the rank is known."""
        if rank not in self._known:
            self._known[rank] = {
                name: self._union(
                    (self._range(piece) for piece in pieces if piece.sure),
                    less=self._unknown.get((rank, name), ()),
                )
                for name, pieces in self._pieces.get(rank, {}).items()
            }
        return self._known[rank]

    def _range(self, piece: _Piece) -> frozenset[int]:
        count = len(piece.column)
        if None in piece.column:
            return frozenset(piece.first + i for i, value in enumerate(piece.column) if value is not None)
        key = (piece.first, count)
        if key not in self._ranges:
            self._ranges[key] = frozenset(range(piece.first, piece.first + count))
        return self._ranges[key]

    def _union(self, found: Iterable[frozenset[int]], *, less: Collection[int] = ()) -> frozenset[int]:
        key = tuple(filter(None, found)), frozenset(less)
        if key not in self._sets:
            self._sets[key] = NOWHERE.union(*key[0]) - key[1]
        return self._sets[key]
