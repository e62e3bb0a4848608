"""What the faults that make links slow or noisy share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from chaoskit.capabilities import CanDegrade


def begin(
    env: CanDegrade,
    nodes: Sequence[str],
    *,
    delay: float = 0.0,
    jitter: float = 0.0,
    rate: float | None = None,
    corrupt: float = 0.0,
) -> dict[str, Any]:
    """Degrade the links of these nodes; the number of it as `applied`."""
    number = env.degrade(nodes, delay=delay, jitter=jitter, rate=rate, corrupt=corrupt)
    return {"degraded": number, "nodes": list(nodes)}


def degraded(env: CanDegrade, applied: Mapping[str, Any], count: str) -> Mapping[str, Any] | None:
    """Evidence that packets of the job went that way and some were struck, by this count, and when that was first seen
    (`since`, on the clock of the record)."""
    counts = dict(env.degraded(applied["degraded"]))
    struck = counts.get("packets", 0) > 0 and counts.get(count, 0) > 0
    return {"counts": counts, "since": time.monotonic()} if struck else None


def restore(env: CanDegrade, applied: Mapping[str, Any]) -> Mapping[str, Any]:
    """As before: what came of it in all."""
    counts = dict(env.degraded(applied["degraded"]))
    env.restore(applied["degraded"])
    return {"counts": counts}
