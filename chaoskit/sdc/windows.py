"""`Window`: the steps of a run in which one corruption is watched. They follow one another, so that one launch has room
for many."""

from __future__ import annotations

from dataclasses import dataclass

from chaoskit.errors import UsageError

#: Of more windows some are left out, evenly.
MOST = 24


@dataclass(frozen=True)
class Window:
    """In step `opens` the state is what it is in an uninterrupted run, which is looked at; in the next one, `struck`,
    the number is made wrong; `closes` is the last step that is watched."""

    opens: int
    closes: int

    @property
    def struck(self) -> int:
        return self.opens + 1

    @property
    def steps(self) -> range:
        """All of it."""
        return range(self.opens, self.closes + 1)


def windows(steps: int, length: int) -> tuple[Window, ...]:
    """The windows of a run of that many steps, of which each watches `length` steps after the struck one.

    Raises UsageError for a run that has no room for one.
    """
    if steps < length + 2:
        raise UsageError(
            f"--window {length}: the job takes {steps} steps, and a window needs {length + 2}: one that is looked at "
            f"before, the one that is struck, and {length} after it"
        )
    found = [Window(at, at + length + 1) for at in range(1, steps - length, length + 2)]
    if len(found) <= MOST:
        return tuple(found)
    return tuple(found[round(i * (len(found) - 1) / (MOST - 1))] for i in range(MOST))
