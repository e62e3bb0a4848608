"""`WindowWatch`: ends a run once its job equals the reference again (see `chaoskit.analysis.windows`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.process_record import RecordFiles
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import STEPS, converged
from chaoskit.engine.record_readers import record_files

#: The time between two looks at the record: see `next_look`.
LOOK_EVERY, SHARE = 0.25, 4.0


def next_look(begun: float, *, every: float, times: float) -> float:
    """When to look again after a look that began at `begun` and ends now: at least `every` seconds later, and at least
    `times` as long as the look took. So looks cost the job little, however long its record grows."""
    now = time.monotonic()
    return now + max(every, times * (now - begun))


class Watch(Protocol):
    """Looks at a run from time to time. `next_look` is when, on the monotonic clock."""

    next_look: float

    def look(self, now: float) -> bool:
        """Whether the run is to be ended."""
        ...


class WindowWatch:
    """Watches the run in `run_dir`. The caller asks only while no further action of chaoskit on the job is due. `files`
    keep what is read."""

    def __init__(
        self, run_dir: Path, reference: Reference, *, least: int = STEPS, files: RecordFiles | None = None
    ) -> None:
        self.next_look = 0.0
        self._events = run_dir / "events"
        self._run_dir = run_dir
        self._reference = reference
        self._least = least
        self._files = files or record_files(keeps=True)
        self._read = 0

    def look(self, now: float) -> bool:
        """Whether the run may end; False if the next look is not due."""
        if now < self.next_look:
            return False
        begun = time.monotonic()
        over = self._grew() and self._equals()
        self.next_look = next_look(begun, every=LOOK_EVERY, times=SHARE)
        return over

    def _equals(self) -> bool:
        history = History.read(self._run_dir, like=self._reference.controls[0], files=self._files)
        return converged(history, self._reference, least=self._least) is not None

    def _grew(self) -> bool:
        """Whether ranks have recorded something since the last look."""
        size = sum(path.stat().st_size for path in self._events.glob("rank-*.jsonl"))
        grew, self._read = size > self._read, size
        return grew
