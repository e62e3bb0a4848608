"""`Callers`: identifies the process behind a request, from the thread id, which is all that the kernel provides.

It reads only `status` in /proc: other files there may wait for a process that is waiting for us. Standard library
only.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

#: For how many seconds an answer is good. A process may begin a session, and ids are used again.
_FRESH = 0.5
_MOST = 1000
_KILLED = 1 << 8  # SIGKILL, which every signal becomes that ends a process


@dataclass(frozen=True, slots=True)
class Caller:
    """A thread, its process and the session of that; 0 for the kernel, or for a process that has ended."""

    thread: int = 0
    process: int = 0
    session: int = 0


class Callers:
    """Looks callers up, and remembers them for a moment."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, Caller]] = {}

    def of(self, thread: int) -> Caller:
        """The caller with this thread."""
        if thread == 0:
            return Caller()
        now = time.monotonic()
        then, caller = self._known.get(thread, (-_FRESH, Caller()))
        if now - then >= _FRESH:
            caller = _look(thread)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[thread] = (now, caller)
        return caller


def is_dying(thread: int) -> bool:
    """Whether the thread has been killed and only waits for an answer."""
    status = _status(thread)
    return not status or any(int(status[name], 16) & _KILLED for name in ("SigPnd", "ShdPnd"))


def _look(thread: int) -> Caller:
    process = int(_status(thread).get("Tgid", "0"))
    try:
        return Caller(thread, process, os.getsid(process) if process else 0)
    except OSError:
        return Caller(thread, process, 0)


def _status(thread: int) -> dict[str, str]:
    try:
        with open(f"/proc/{thread}/status", encoding="ascii", errors="replace") as file:
            return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    except OSError:
        return {}
