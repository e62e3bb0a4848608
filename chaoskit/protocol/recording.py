"""`Recording`: at which steps a rank records its whole state, where it need not do so at every step (`--record-every`).

Losses, learning rates, batches and samples are recorded at every step. The rest of the state is, if each n-th step is
enough, recorded at the steps with a multiple of n as their number in the process, and at the first `BURST` ones that
follow on the start of the process, on a load and on a save. So all ranks of an incarnation have steps in common, the
first one after a resume is among them, and so is the one that shows what a save should hold.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The variable of the environment that tells a rank the number n.
VARIABLE = "CHAOSKIT_RECORD_EVERY"
#: So many steps are recorded whole after a start, a load and a save.
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
        """As the environment of a rank says. An elastic job records every step: its state at a save may be compared
        with that of other ranks, which made no save."""
        every = env.get(VARIABLE, "")
        return cls(int(every) if every.isdecimal() and env.get("CHAOSKIT_ELASTIC") != "1" else 1)

    def begins_anew(self, n: int) -> None:
        """A checkpoint was written or read after `n` steps."""
        self._since = n

    def whole(self, n: int) -> bool:
        """Whether step `n` of the process is recorded whole."""
        return n % self.every == 0 or n - self._since <= BURST
