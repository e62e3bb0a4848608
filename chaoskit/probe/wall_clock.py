"""`WallClock`: notices that the wall clock of this process has jumped."""

from __future__ import annotations

from time import monotonic, time

#: A jump, in seconds: what an adjusted clock gains between two events is far less.
JUMP = 0.1
#: Readings that took longer, because the process had to wait, tell nothing.
_QUICK = 0.005


class WallClock:
    """`ahead` is by how many seconds the wall clock is ahead of the monotonic clock, by which events have their times.

    The functions of the clock are bound when this is imported, so that a job that replaces them changes nothing.
    """

    def __init__(self) -> None:
        self.ahead = round(time() - monotonic(), 6)

    def jumped(self) -> float | None:
        """By how many seconds it has jumped since this was asked last; None if it has not."""
        before = monotonic()
        wall = time()
        if monotonic() - before > _QUICK:
            return None
        moved = wall - before - self.ahead
        self.ahead = round(wall - before, 6)
        return round(moved, 6) if abs(moved) >= JUMP else None
