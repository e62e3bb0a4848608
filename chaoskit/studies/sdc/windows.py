"""`WatchWindow`: the steps in which one corruption is watched. Windows do not overlap, so a launch can have several."""

from __future__ import annotations

from dataclasses import dataclass

from chaoskit.errors import UsageError

#: Maximum number of windows; of more, an even selection is used.
MOST = 24


@dataclass(frozen=True)
class WatchWindow:
    """In step `opens` the state must equal the uninterrupted run; in the next step, `struck`, a number is corrupted;
    `closes` is the last watched step."""

    opens: int
    closes: int

    @property
    def struck(self) -> int:
        return self.opens + 1

    @property
    def steps(self) -> range:
        """All steps of the window."""
        return range(self.opens, self.closes + 1)


def windows(steps: int, length: int) -> tuple[WatchWindow, ...]:
    """Return the windows of a run of `steps` steps, each with `length` steps after the corrupted one.

    Raises UsageError if the run is too short for a window.
    """
    if steps < length + 2:
        raise UsageError(
            f"--window {length}: a window needs {length + 2} steps (one before the corruption, the corrupted one, and "
            f"{length} after it), but the job has only {steps}: choose a smaller window"
        )
    found = [WatchWindow(at, at + length + 1) for at in range(1, steps - length, length + 2)]
    if len(found) <= MOST:
        return tuple(found)
    return tuple(found[round(i * (len(found) - 1) / (MOST - 1))] for i in range(MOST))
