"""Plans for tests: a job of one class of memoryless failures, whose recovery takes a constant time."""

from __future__ import annotations

from typing import Any

from chaoskit.studies.forecast.plan import Checkpointing, Cluster, Plan, RecoveryCosts
from chaoskit.studies.forecast.presets import FailureClass

HOUR = 3600.0


def plan(
    *,
    gpus: int = 64,
    days: float = 5.0,
    mtbf_hours: float = 5.0,
    interval: float = HOUR,
    blocking: float = 60.0,
    restart: float = 600.0,
    cluster: dict[str, Any] | None = None,
    saves: dict[str, Any] | None = None,
    recovery: dict[str, Any] | None = None,
    failures: dict[str, Any] | None = None,
) -> Plan:
    """A job that fails every `mtbf_hours`."""
    own = {"name": "gpu", "unit": "gpu", "mtbf_hours": mtbf_hours * gpus, **(failures or {})}
    seconds = {"crash_seconds": restart, "hang_seconds": 0.0, "relaunch_seconds": 0.0, "load_seconds": 0.0}
    return Plan(
        days,
        Cluster(gpus, **(cluster or {})),
        Checkpointing(interval, blocking, **(saves or {})),
        RecoveryCosts(**{**seconds, **(recovery or {})}),
        (FailureClass(**own),),
    )
