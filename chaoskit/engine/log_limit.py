"""`LogLimit`: keeps what a job prints from filling the disk; what is left out is in the record."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from chaoskit.files import long_logs
from chaoskit.protocol.events import EventWriter

#: Seconds between two looks at the sizes of the logs.
LOOK_EVERY = 1.0


class LogLimit:
    """The logs of one run: of each the beginning and the end are kept, `limit` bytes of it together."""

    def __init__(self, run_dir: Path, writer: EventWriter, *, limit: int = long_logs.LIMIT) -> None:
        self._run_dir = run_dir
        self._writer = writer
        self._limit = limit
        self._look_at = 0.0

    def timers(self) -> list[float]:
        """When to look next, on the monotonic clock."""
        return [self._look_at]

    def look(self, now: float) -> None:
        """Free what is too much, if that is due."""
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            for path in long_logs.logs_below(self._run_dir / "logs"):
                long_logs.free_middle(path, limit=self._limit)

    def end(self) -> None:
        """Nobody writes any more: cut every log that is too long, and record that."""
        for path in long_logs.logs_below(self._run_dir / "logs"):
            with suppress(OSError):  # another user's, which stays as it is
                if left_out := long_logs.cut_middle(path, limit=self._limit):
                    name = str(path.relative_to(self._run_dir))
                    self._writer.write("log.cut", file=name, left_out=left_out, limit=self._limit)
