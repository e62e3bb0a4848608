"""Preemption: someone wants the machine back, and is polite enough to say so first (SIGTERM).

The signal may reach one rank or all of them, in the middle of anything. So the handler takes note
and does nothing else; at the end of a step the ranks ask each other, and leave together.

A rank that is told to leave because a peer has died needs no care here: its next collective raises.
"""

import signal
from types import FrameType, TracebackType
from typing import Any

from tinymodels.world import World


class Preemption:
    """Listens while it is entered."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.noticed = False  # by this rank
        self.before: Any = None

    def __enter__(self) -> "Preemption":
        self.before = signal.signal(signal.SIGTERM, self.notice)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: Any, __: TracebackType | None) -> None:
        signal.signal(signal.SIGTERM, self.before)

    def notice(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        self.noticed = True

    def asked(self) -> bool:
        """All ranks: has any of us been told to leave?"""
        return self.world.any(self.noticed)
