"""chaoskit: prove that a training job survives what will happen to it.

The names that a test needs are here and load on first use, so that `import chaoskit` stays cheap:
it happens inside every rank of the job under test.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from chaoskit import checks, faults, probe
    from chaoskit.job import Job
    from chaoskit.nodes import NodeLossPolicy
    from chaoskit.protocol import targets

__all__ = ["Job", "NodeLossPolicy", "__version__", "checks", "faults", "probe", "targets"]


def __getattr__(name: str) -> Any:
    if name == "Job":
        return import_module("chaoskit.job").Job
    if name == "NodeLossPolicy":
        return import_module("chaoskit.nodes").NodeLossPolicy
    if name in ("checks", "faults", "probe"):
        return import_module(f"chaoskit.{name}")
    if name == "targets":
        return import_module("chaoskit.protocol.targets")
    raise AttributeError(f"module 'chaoskit' has no attribute {name!r}")
