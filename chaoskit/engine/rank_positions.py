"""`RankPositions`: the number of steps that each rank has truly completed, counted over the whole training.

A rank counts the steps of its own process. The position that it began at follows from aligning its state with the
reference.
"""

from __future__ import annotations

from chaoskit.analysis.alignment.index import Index
from chaoskit.analysis.record.rank_lifetime import step_of
from chaoskit.analysis.reference.reference import Reference
from chaoskit.environments.environment import Arrived


class RankPositions:
    """The positions of one run's ranks. Without a reference, only the first process of a rank has a known one. With
    `late`, the first process resumes, too."""

    def __init__(self, reference: Reference | None, *, late: bool = False) -> None:
        self._reference = reference
        self._index = Index.of(reference) if reference is not None else None
        #: By rank and pid: the position at which the process began to count.
        self._bases: dict[tuple[int, int, str], int | None] = {}
        self._seen: set[int] = set(range(reference.world_size)) if late and reference is not None else set()

    def of(self, arrived: Arrived) -> int | None:
        """The number of steps that the rank has completed; None where alignment cannot determine it (yet)."""
        key = (arrived.rank, arrived.pid, arrived.key)
        if arrived.rank not in self._seen:
            # The first process of a rank has nothing to resume from.
            self._seen.add(arrived.rank)
            self._bases[key] = 0
        if self._bases.get(key) is None and arrived.record is not None and self._reference and self._index:
            step = step_of(arrived.record, 0.0)
            self._bases[key] = self._index.base_of(step, arrived.rank, likely=self._reference.saves)
        elif (position := self._rolled_back_to(arrived, self._bases.get(key))) is not None:
            self._bases[key] = position - arrived.n  # its process continues its own count
        base = self._bases.get(key)
        return base + arrived.n if base is not None else None

    def _rolled_back_to(self, arrived: Arrived, base: int | None) -> int | None:
        """The position of a rank that loaded a checkpoint without a restart and now has an earlier state; None for any
        other."""
        if base is None or not (arrived.record or {}).get("loaded") or not (self._reference and self._index):
            return None
        assert arrived.record is not None
        step = step_of(arrived.record, 0.0)
        own = self._index.align(step, arrived.rank, likely=self._reference.saves)
        position = own.position
        back = (
            position is not None and position < base + arrived.n and position in (own.positions.get("model") or ())
        )
        return position if back else None
