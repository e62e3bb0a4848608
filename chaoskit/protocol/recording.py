"""`Recording`: says at which steps a rank records its whole state, if not at every step (`--record-every`).

Losses, learning rates, batches and samples are recorded at every step. If each n-th step is enough, the rest of the
state is recorded at the steps whose number in the process is a multiple of n, and at the first `BURST` steps after the
start of the process, after a load and after a save. So all ranks of an incarnation have recorded steps in common. The
first step after a resume is among them, and so is the one that shows what a save should hold.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The environment variable that gives a rank the number n.
VARIABLE = "CHAOSKIT_RECORD_EVERY"
#: The number of steps that are recorded whole after a start, a load and a save.
BURST = 8
#: The components that every step records.
AT_EVERY_STEP = frozenset({"lr", "batch"})


class Recording:
    """The steps of one process. With `every` 1 each is recorded whole."""

    def __init__(self, every: int = 1) -> None:
        self.every = max(1, every)
        self._since = 0

    @classmethod
    def told(cls, env: Mapping[str, str]) -> Recording:
        """Read it from the environment of a rank. An elastic job records every step: its state at a save may be
        compared with that of other ranks, which made no save."""
        every = env.get(VARIABLE, "")
        return cls(int(every) if every.isdecimal() and env.get("CHAOSKIT_ELASTIC") != "1" else 1)

    def begins_anew(self, n: int) -> None:
        """A checkpoint was written or read after `n` steps."""
        self._since = n

    def whole(self, n: int) -> bool:
        """Whether step `n` of the process is recorded whole."""
        return n % self.every == 0 or n - self._since <= BURST
