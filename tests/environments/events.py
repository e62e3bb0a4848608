"""What the tests of every environment wait for."""

from __future__ import annotations

import time
from typing import Any


def news(env: Any, kind: type, *, timeout: float = 60.0) -> Any:
    """The first event of that kind."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        for event in env.wait(1):
            if isinstance(event, kind):
                return event
    raise AssertionError(f"no {kind.__name__} came")
