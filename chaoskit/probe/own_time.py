"""`OwnTime`: for how long a rank has worked on a step itself, and not waited for other ranks."""

from __future__ import annotations

import os
import sys
import time


class OwnTime:
    """The time from one step to the next in which the thread that trains had work: it computed, it was ready to and
    had no processor, or it waited for a batch of its data loader. Without the gate, and what the probe does at a step.

    All ranks of a synchronous job step at the pace of the slowest, because they exchange gradients. So the time
    between steps does not tell a slow rank from those that wait for it. Who waits for others sleeps, and this time
    leaves that out. With an accelerator it is not known: the thread that trains hands out the work and may wait
    for its own device.
    """

    def __init__(self) -> None:
        #: Of the step that ended last; None if it is not known.
        self.seconds: float | None = None
        self._begun: float | None = None
        self._fetch = (0.0, 0.0)
        self._fetching = 0.0

    def begins(self) -> None:
        """A step was recorded, and the next one begins."""
        self._begun, self._fetching = _busy(), 0.0

    def ends(self) -> None:
        """A step is about to be recorded."""
        now, begun, self._begun = _busy(), self._begun, None
        known = now is not None and begun is not None and not _accelerated()
        self.seconds = (now or 0.0) - (begun or 0.0) + self._fetching if known else None

    def fetches(self) -> None:
        """A batch is requested of a data loader."""
        self._fetch = time.monotonic(), _busy() or 0.0

    def fetched(self) -> None:
        """The data loader has returned. The time in which this thread did not work was spent waiting for the data."""
        begun, busy = self._fetch
        self._fetching += max(0.0, time.monotonic() - begun - ((_busy() or 0.0) - busy))


def _busy() -> float | None:
    """For how many seconds this thread has run, or waited for a processor; None where the kernel does not count it."""
    try:
        fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        ran, waited, _ = os.read(fd, 100).split()
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
    return (int(ran) + int(waited)) / 1e9


def _accelerated() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())
