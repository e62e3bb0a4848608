"""Preemption: the scheduler wants the machine back and sends SIGTERM first.

The signal may reach one rank or all of them, at any moment. So the handler only sets a flag. At the end of a step the
ranks ask each other, and all of them save and leave together. When a launcher sends SIGTERM because a peer has died,
nothing special is needed: the next collective of this rank raises.
"""

import signal
from types import FrameType, TracebackType
from typing import Any

from tinymodels.elasticity.world import World


class Preemption:
    """A context manager that listens for SIGTERM."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.noticed = False  # on this rank
        self.before: Any = None

    def __enter__(self) -> "Preemption":
        self.before = signal.signal(signal.SIGTERM, self.notice)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: Any, __: TracebackType | None) -> None:
        signal.signal(signal.SIGTERM, self.before)

    def notice(self, number: int, frame: FrameType | None) -> None:
        """Set the flag. This is the signal handler."""
        self.noticed = True

    def asked(self) -> bool:
        """Return True if any rank has been told to leave. Call it on all ranks."""
        return self.world.any(self.noticed)
