"""`Sample`: which corruptions are tried, in which order: a function of the seed alone.

Every cell (a place and a change) has its turn before any has a second one, and from turn to turn the struck step goes
through the windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from chaoskit.places import Place
from chaoskit.sdc import changes
from chaoskit.sdc.windows import Window


@dataclass(frozen=True)
class Cell:
    """A place, and what is done to the numbers there."""

    place: Place
    change: str

    def __str__(self) -> str:
        return f"{self.change} into {self.place}"


@dataclass(frozen=True)
class Injection:
    """One corruption. `number` counts from 1 in the sample; `at` (0 to below 1) and `seed` are drawn."""

    number: int
    cell: Cell
    window: Window
    rank: int
    at: float
    seed: int

    def order(self, dtype: str) -> Mapping[str, Any]:
        """What the rank is told, where the numbers are of that type."""
        return {
            "do": "corrupt",
            "into": self.cell.place.to_json(),
            "how": changes.how(self.cell.change, dtype, self.at),
            "elements": changes.elements(self.cell.change),
            "steps": 1,
            "seed": self.seed,
        }

    @property
    def handed_over(self) -> int:
        """The step at whose gate the rank is told: what strikes in the middle of a step, one step ahead."""
        return self.window.struck - (not self.cell.place.held)


@dataclass(frozen=True)
class Sample:
    """The sample itself goes on for ever; whoever goes through it stops somewhere."""

    places: Sequence[Place]
    windows: Sequence[Window]
    world_size: int
    seed: int

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All of them, by place."""
        return tuple(Cell(place, change) for place in self.places for change in changes.CHANGES)

    def __iter__(self) -> Iterator[Injection]:
        cells = self.cells
        number = turn = 0
        offsets = [place % len(self.windows) for place in range(len(cells))]
        Random(f"{self.seed}").shuffle(offsets)
        while True:
            order = list(range(len(cells)))
            Random(f"{self.seed}/{turn}").shuffle(order)
            for place in order:
                number += 1
                draw = Random(f"{self.seed}/{turn}/{cells[place]}")
                window = self.windows[(offsets[place] + turn) % len(self.windows)]
                rank = draw.randrange(self.world_size)
                yield Injection(number, cells[place], window, rank, draw.random(), draw.randrange(2**31))
            turn += 1
