"""What the tests of every environment wait for."""

from __future__ import annotations

import time
from typing import Any

from chaoskit.environments.environment import Arrived


def news(env: Any, kind: type, *, timeout: float = 60.0) -> Any:
    """The first event of that kind."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        for event in env.wait(1):
            if isinstance(event, kind):
                return event
    raise AssertionError(f"no {kind.__name__} came")


def arrivals(env: Any, count: int, *, timeout: float = 60.0) -> set[int]:
    """The ranks that have come to their gates, once there are so many. Two may come at the same time."""
    found: set[int] = set()
    deadline = time.monotonic() + timeout
    while len(found) < count:
        assert time.monotonic() < deadline, f"only ranks {sorted(found)} of {count} came"
        found.update(event.rank for event in env.wait(1) if isinstance(event, Arrived))
    return found
