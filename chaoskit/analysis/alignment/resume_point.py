"""`Start`: where an incarnation of the ranks started, as its first step tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaoskit.analysis.alignment.alignment import Alignment


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
