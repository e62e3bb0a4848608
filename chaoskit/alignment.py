"""Alignment: which position of the reference does each component of a step match?

An `Index` knows, for every rank and component, at which positions each fingerprint was seen. `Index.align` looks
one step up in it: for each component on its own the set of positions that it matches. Sets, because a constant
learning rate or an RNG that nobody draws from matches many; what is said of a step is said of their intersection.

A position is a number of completed optimizer steps: a step that leads from position 40 to 41 *is at* position 40.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from chaoskit.life import COMPONENTS
from chaoskit.steps import Step, Steps

#: Components in the order of what a match away from position 0 proves. Only the first three prove on their own
#: that something was loaded: the others recur, or move in steps of their own.
TRUST = ("model", "optimizer", "ema", "buffers", "scaler", "rng", "batch", "lr")
PROOF = TRUST[:3]

NOWHERE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Alignment:
    """One step of one rank against the index.

    `positions` maps each component to the positions that it matches: empty where it matches none, None where the
    step lacks a component that the index knows. `known` are the positions at which the index knew each component,
    `likely` those at which a checkpoint is known to have been written. `loose` components may be anything but behind.
    """

    rank: int
    positions: Mapping[str, frozenset[int] | None]
    known: Mapping[str, frozenset[int]]
    likely: frozenset[int] = NOWHERE
    loose: frozenset[str] = frozenset()

    @cached_property
    def columns(self) -> dict[str, frozenset[int] | None]:
        """The positions by column of the table: the RNG streams together, as the intersection of theirs."""
        return self._columns(name for name in self.positions if name not in self.loose)

    def _columns(self, names: Iterable[str]) -> dict[str, frozenset[int] | None]:
        columns: dict[str, frozenset[int] | None] = {}
        for name in names:
            own, column = self.positions[name], _column(name)
            before = columns.get(column)
            columns[column] = before if own is None else own if before is None else own & before
        return columns

    @cached_property
    def candidates(self) -> tuple[int, ...]:
        """The positions that the step may be at, ascending: several only if no component tells them apart."""
        found = self._proven()
        if not found:
            return ()
        seen = [self.columns.get(name) or NOWHERE for name in TRUST]

        def weight(position: int) -> tuple[int, list[bool], bool]:
            votes = [position in one for one in seen]
            return sum(votes), votes, position == 0 or position in self.likely

        best = max(weight(position) for position in found)
        return tuple(sorted(position for position in found if weight(position) == best))

    def _proven(self) -> frozenset[int]:
        """Where the choice is made. Position 0 is what a fresh start gives; anything else must have been loaded:
        one component away from 0 outweighs any number of components at 0, which were merely not restored."""
        # A model that is nowhere near a checkpoint, beside random numbers that are those of one: the checkpoint was
        # read, and what it held of the model was not what had been saved.
        for name in (*PROOF, *TRUST):
            found = self.columns.get(name) or NOWHERE
            if found & self.likely and 0 not in found:
                return found & self.likely
        for name in PROOF:
            found = self.columns.get(name) or NOWHERE
            if found and 0 not in found:
                return found
        model = self.columns.get("model")
        return model or NOWHERE.union(*(found for found in self.columns.values() if found))

    @property
    def position(self) -> int | None:
        """The position the step is at; None where nothing matches or nothing tells the candidates apart."""
        return self.candidates[0] if len(self.candidates) == 1 else None

    def off(self, position: int) -> tuple[str, ...]:
        """The components that should be at `position`, as far as the index knows them there, and are not."""
        return tuple(
            name
            for name, found in self.positions.items()
            if found is not None and position not in found and position in self.known[name]
            if name not in self.loose or _behind(found, position)
        )

    def silent(self, position: int | None) -> frozenset[str]:
        """The components that say nothing of `position`: loose ones, and those of which nobody knows what is due."""
        if position is None:
            return self.loose
        there = (name for name, found in self.positions.items() if found and position in found)
        unknown = (name for name in self.positions if position not in self.known[name])
        return self.loose.union(unknown).difference(self.off(position), there)

    def at(self, position: int) -> frozenset[str]:
        """The columns that are at `position`."""
        columns = self._columns(name for name in self.positions if name not in self.silent(position))
        return frozenset(name for name, found in columns.items() if found and position in found)

    def absent(self, position: int) -> tuple[str, ...]:
        """The components that the index knows at `position` and the step lacks."""
        return tuple(
            name
            for name, found in self.positions.items()
            if found is None and position in self.known[name] and name not in self.loose
        )

    @property
    def exact(self) -> bool:
        """Whether every component that can be compared is at `position`."""
        return self.position is not None and not self.off(self.position)

    def trusted(self, position: int) -> bool:
        """Whether the model itself is at `position`; where the model cannot be compared, whether all else is."""
        model = self.positions.get("model")
        if model is None or position not in self.known["model"]:
            return any(self.positions.values()) and not self.off(position)
        return position in model

    def row(self, expected: int | None = None) -> dict[str, str]:
        """The cells of the table: '40', '40…80', '0, 30', 'any', 'none', or 'mixed' where the RNG streams are
        apart; what is absent, or says nothing, has no cell. A match of several positions names the expected one:
        '40 (any)'."""
        told = [name for name in self.positions if name not in self.silent(expected)]
        columns = self._columns(told)
        cells = ((name, self._cell(columns.get(name), told, name)) for name in COMPONENTS)
        return {
            name: f"{expected} ({text})" if expected in found and text != str(expected) else text
            for name, text in cells
            if (found := columns.get(name)) is not None
        }

    def _cell(self, found: frozenset[int] | None, told: Sequence[str], column: str) -> str:
        names = [name for name in told if _column(name) == column]
        if not found:
            return "mixed" if len(names) > 1 and all(self.positions[name] for name in names) else "none"
        if len(found) > 1 and found >= NOWHERE.union(*(self.known[name] for name in names)):
            return "any"
        return show_positions(found)


def show_positions(positions: Collection[int]) -> str:
    """'40', '40…80', '0, 30, 60' or '0, 30, … 570'; 'none' for no position."""
    ordered = sorted(positions)
    if not ordered:
        return "none"
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}…{ordered[-1]}"
    if len(ordered) <= 3:
        return ", ".join(map(str, ordered))
    return f"{ordered[0]}, {ordered[1]}, … {ordered[-1]}"


def _behind(found: frozenset[int], position: int) -> bool:
    """Whether a stream that is drawn from less or more than in the reference began too early all the same: from what a
    checkpoint held, it has been where the reference was one step before."""
    return bool(found) and max(found) < position - 1


def _column(name: str) -> str:
    return "rng" if name.startswith("rng.") else name


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
        place = -1
        while True:
            try:
                place = self.column.index(fingerprint, place + 1)
            except ValueError:
                return
            yield self.first + place


class Index:
    """Where each fingerprint was seen. Columns are searched where they lie: an index costs next to nothing to make.

    `loose` names components of which each rank has its own and which depend on how many ranks there are.
    """

    def __init__(self, *, loose: Collection[str] = ()) -> None:
        self.loose = frozenset(loose)
        self._pieces: dict[int, dict[str, list[_Piece]]] = {}
        # Equal sets of thousands of positions, of hundreds of ranks, are kept once.
        self._sets: dict[frozenset[int], frozenset[int]] = {}
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
        """Learn what `rank` had in the steps of a life that began at `base`; past the position `last` it may have been
        otherwise."""
        for start, end in steps.runs():
            first = base + steps.numbers[start] - 1
            cut = end if last is None else max(start, min(end, start + last - first + 1))
            for name, column in steps.columns.items():
                if components is None or name in components:
                    whole = start == 0 and cut == len(column)
                    self._put(rank, name, _Piece(first, column if whole else column[start:cut]))
                    self._put(rank, name, _Piece(first + cut - start, column[cut:end], sure=False))

    def forget(self, rank: int, name: str, position: int) -> None:
        """What the component was at `position` is not known any more, until it is learned again: a life came there that
        nobody saw there. What matches there still does."""
        self._unknown.setdefault((rank, name), set()).add(position)
        self._known.pop(rank, None)

    def align(self, step: Step, rank: int, *, likely: Collection[int] = ()) -> Alignment:
        """Where `step` of `rank` is; `likely` are positions at which a checkpoint is known to have been written.

        A component that the index does not know of this rank says nothing and is left out.
        """
        positions: dict[str, frozenset[int] | None] = {}
        for name in self._pieces.get(rank, {}):
            fingerprint = step.components.get(name)
            positions[name] = None if fingerprint is None else self.where(rank, name, fingerprint)
        return Alignment(rank, positions, self._known_of(rank), frozenset(likely), self.loose)

    def where(self, rank: int, name: str, fingerprint: str) -> frozenset[int]:
        """The positions at which the component of the rank had this fingerprint."""
        found: set[int] = set()
        for piece in self._pieces.get(rank, {}).get(name, ()):
            if piece.column[0] == fingerprint and piece.column.count(fingerprint) == len(piece.column):
                found |= self._range(piece)
            else:
                found.update(piece.find(fingerprint))
        return self._shared(frozenset(found))

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
                name: self._shared(
                    NOWHERE.union(*(self._range(piece) for piece in pieces if piece.sure)).difference(
                        self._unknown.get((rank, name), ())
                    )
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

    def _shared(self, found: frozenset[int]) -> frozenset[int]:
        return self._sets.setdefault(found, found)
