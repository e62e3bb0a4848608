"""`Alignment`: the positions of the reference that each component of one step matches, and what they say together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from chaoskit.analysis.record.rank_lifetime import COMPONENTS

NOWHERE: frozenset[int] = frozenset()

#: Components in the order of what a match away from position 0 proves. Only the first three prove on their own
#: that something was loaded: the others recur, or move in steps of their own.
TRUST = ("model", "optimizer", "ema", "buffers", "scaler", "rng", "batch", "lr")

PROOF = TRUST[:3]


@dataclass(frozen=True)
class Alignment:
    """One step of one rank against the index.

    `positions` maps each component to the positions that it matches: empty where it matches none, None where the
    step lacks a component that the index knows. `known` are the positions at which the index knew each component,
    `likely` those at which a checkpoint is known to have been written. `loose` components may be anything but behind.
    `read` are the positions of the checkpoint that was read: several only if nothing tells these apart.
    """

    rank: int
    positions: Mapping[str, frozenset[int] | None]
    known: Mapping[str, frozenset[int]]
    likely: frozenset[int] = NOWHERE
    loose: frozenset[str] = frozenset()
    read: frozenset[int] = NOWHERE

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
        # What was read decides, unless the state shows that something else was taken. A batch shows no such thing.
        if taken := frozenset(position for position in self.read if not self._refuted(position)):
            return taken
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

    def _refuted(self, position: int) -> bool:
        """Whether the state shows that the checkpoint of that position was not taken, although it was read: a component
        is at another checkpoint, or they all are where a fresh start is."""
        proof = [(self.known[name], found) for name in PROOF if (found := self.columns.get(name)) is not None]
        # A component that never moves shows nothing at a position that nobody saw.
        moving = [found for known, found in proof if position in known or not found >= known]
        apart = [found for found in moving if found and position not in found]
        return any(0 not in found for found in apart) or (bool(apart) and len(apart) == len(proof))

    @property
    def position(self) -> int | None:
        """The position the step is at; None if nothing matches or nothing tells the candidates apart."""
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
        shown = [name for name in self.positions if name not in self.silent(expected)]
        columns = self._columns(shown)
        cells = ((name, self._cell(columns.get(name), shown, name)) for name in COMPONENTS)
        return {
            name: f"{expected} ({text})" if expected in found and text != str(expected) else text
            for name, text in cells
            if (found := columns.get(name)) is not None
        }

    def _cell(self, found: frozenset[int] | None, shown: Sequence[str], column: str) -> str:
        names = [name for name in shown if _column(name) == column]
        if not found:
            return "mixed" if len(names) > 1 and all(self.positions[name] for name in names) else "none"
        if len(found) > 1 and all(found is self.known[name] or found >= self.known[name] for name in names):
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
