"""`NoticeWatch`: reads the job's output while it runs, and records each line that speaks of a slow rank, with its time.

The output itself has no times. What is recorded is when the line was read, up to `LOOK_EVERY` seconds after it was
printed.
"""

from __future__ import annotations

import re
from pathlib import Path

from chaoskit.faults import Fault
from chaoskit.faults.fault import action_traits
from chaoskit.protocol.events import EventWriter

#: Seconds between two looks.
LOOK_EVERY = 0.5
#: What a detector of slow ranks says.
SLOW = re.compile(
    rb"straggl|\bslow(er|est)?\b.{0,20}\b(rank|worker|node|gpu)\b"
    rb"|\b(rank|worker|node|gpu)\b.{0,40}\b(slow(er|est)?|lagging|lags)\b",
    re.IGNORECASE,
)
#: At most so many lines of a run are recorded, and so many characters of each.
LINES, LONGEST = 200, 300


class NoticeWatch:
    """Watches the output of one run, if one of its `faults` lasts for a while."""

    def __init__(self, run_dir: Path, writer: EventWriter, faults: list[Fault]) -> None:
        self._logs = run_dir / "logs"
        self._writer = writer
        self._read: dict[Path, int] = {}
        self._left = LINES if any(_lasts(fault) for fault in faults) else 0
        self._look_at = 0.0

    def timers(self) -> list[float]:
        """When to look next, on the monotonic clock."""
        return [self._look_at] if self._left else []

    def look(self, now: float, *, last: bool = False) -> None:
        """Read what the job has printed since, if that is due, or if it is the `last` time."""
        if not self._left or (now < self._look_at and not last):
            return
        self._look_at = now + LOOK_EVERY
        for path in sorted(self._logs.glob("launch-*.log")):
            self._read_on(path)

    def _read_on(self, path: Path) -> None:
        begun = self._read.get(path, 0)
        try:
            with path.open("rb") as file:
                file.seek(begun)
                new = file.read()
        except OSError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read[path] = begun + len(whole)
        launch = int(path.stem.rpartition("-")[2])
        for line in whole.splitlines():
            if self._left and SLOW.search(line):
                self._left -= 1
                self._writer.write("notice", launch=launch, text=line.decode(errors="replace").strip()[:LONGEST])


def _lasts(fault: Fault) -> bool:
    return fault.action.heal_after is not None or action_traits(fault.action).heal_step is not None
