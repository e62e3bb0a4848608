"""When the storage of a run failed, as its faults had it: what was saved then may have become a checkpoint, or not.

The probe sees the writes of a save, and not all that a job does to publish it. A job whose manifest, rename or pointer
met an error has no checkpoint there, although every write of it had ended well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from chaoskit.analysis.record.history import History


@dataclass(frozen=True)
class Hindrance:
    """From when until when (infinity: the end of the run) requests were answered with errors."""

    begun: float
    ended: float

    def meets(self, begun: float, ended: float | None) -> bool:
        """Whether it has overlapped that time."""
        return self.begun <= (math.inf if ended is None else ended) and begun <= self.ended


def hindrances(history: History) -> Iterator[Hindrance]:
    """Every one that the job has met: its fault says `error` in its evidence, and `used_up` where it was over before it
    was healed."""
    for fault in history.faults:
        if fault.observed is not None and fault.applied is not None and fault.evidence.get("error"):
            over = fault.evidence.get("used_up", fault.healed)
            yield Hindrance(fault.applied, math.inf if over is None else over)
