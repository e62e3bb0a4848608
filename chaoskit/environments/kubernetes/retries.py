"""`retried`: repeats a request whose error may be gone a moment later, within a limit of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from chaoskit.environments.kubernetes.cluster_error import ClusterError

Answer = TypeVar("Answer")
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0


def retried(
    attempt: Callable[[], Answer],
    *,
    patience: float,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """What `attempt` returns. A passing error is repeated until `patience` seconds are over: after the time that the
    server names, or after waits that double. Raises the last ClusterError, and any that does not pass at once."""
    deadline, wait = clock() + patience, _FIRST_WAIT
    while True:
        try:
            return attempt()
        except ClusterError as error:
            named = max(wait, error.retry_after or 0.0)
            if not error.passing or clock() + named > deadline:
                raise
        pause(named)
        wait = min(2 * wait, _LONGEST_WAIT)
