"""Preemption: the scheduler wants the machine back and sends SIGTERM first.

The signal may reach one rank or all of them, at any moment. So the handler only sets a flag. At the end of a step the
ranks ask each other, and all of them save and leave together. When a launcher sends SIGTERM because a peer has died,
nothing special is needed: the next collective of this rank raises.

A notice (see notices.py) may come to one node alone, too. So the ranks agree on it in the same way.
"""

import signal
from types import FrameType, TracebackType
from typing import Any

from tinymodels.elasticity.world import World
from tinymodels.preemption.notices import Watch


class Preemption:
    """A context manager that listens for SIGTERM, and for notices if it is given a `watch`."""

    def __init__(self, world: World, watch: Watch | None = None) -> None:
        self.world, self.watch = world, watch
        self.noticed = False  # on this rank
        self.before: Any = None

    def __enter__(self) -> "Preemption":
        self.before = signal.signal(signal.SIGTERM, self.notice)
        if self.watch is not None:
            self.watch.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: Any, __: TracebackType | None) -> None:
        if self.watch is not None:
            self.watch.__exit__(None, None, None)
        signal.signal(signal.SIGTERM, self.before)

    def notice(self, number: int, frame: FrameType | None) -> None:
        """Set the flag. This is the signal handler."""
        self.noticed = True

    def asked(self) -> bool:
        """Return True if any rank has been told to leave. Call it on all ranks."""
        return self.world.any(self.noticed)

    def urgent(self) -> bool:
        """Return True while a notice stands on any rank. Call it on all ranks."""
        return self.watch is not None and self.world.any(self.watch.stands)
