"""`Sample`: the sequence of corruptions to test, a function of the seed only.

Every cell (a target and a change) is tested once before any is tested again; each round uses the next window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from chaoskit.protocol.targets import InjectionTarget
from chaoskit.studies.sdc import changes
from chaoskit.studies.sdc.windows import WatchWindow


@dataclass(frozen=True)
class Stratum:
    """A target, and the change of its numbers."""

    place: InjectionTarget
    change: str

    def __str__(self) -> str:
        return f"{self.change} in {self.place}"


@dataclass(frozen=True)
class Injection:
    """One corruption. `number` counts from 1 in the sample; `at` (0 to below 1) and `seed` are random."""

    number: int
    cell: Stratum
    window: WatchWindow
    rank: int
    at: float
    seed: int

    def order(self, dtype: str) -> Mapping[str, Any]:
        """Return the order for the rank, for numbers of that type."""
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
        """The step at whose gate the rank gets the order: one step earlier for a change in the middle of a step."""
        return self.window.struck - (not self.cell.place.held)


@dataclass(frozen=True)
class Sample:
    """The sample, an infinite iterable of corruptions."""

    places: Sequence[InjectionTarget]
    windows: Sequence[WatchWindow]
    world_size: int
    seed: int

    @property
    def cells(self) -> tuple[Stratum, ...]:
        """All cells, by target."""
        return tuple(Stratum(place, change) for place in self.places for change in changes.CHANGES)

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
