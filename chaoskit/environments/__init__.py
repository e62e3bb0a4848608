"""Where jobs run, and the registry that `--env NAME` is looked up in.

The environments themselves are imported on first use: the ranks of a warm launch import this package too, and shall
import as little as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chaoskit.environments import registry
from chaoskit.environments.registry import (
    DEFAULT_ENVIRONMENT,
    EnvironmentType,
    environment,
    failing_storage,
    must_fit,
    must_have,
    must_offer,
    must_share_files,
    must_store,
    offers,
    register_environment,
    remedy_for,
    sweep,
    unused_options,
)
from chaoskit.environments.traits import EnvironmentTraits, StorageKind

if TYPE_CHECKING:
    from chaoskit.environments.local.environment import LocalEnvironment
    from chaoskit.environments.netns.environment import NetnsEnvironment
    from chaoskit.environments.registry import ENVIRONMENTS

__all__ = [
    "DEFAULT_ENVIRONMENT",
    "ENVIRONMENTS",
    "EnvironmentTraits",
    "EnvironmentType",
    "LocalEnvironment",
    "NetnsEnvironment",
    "StorageKind",
    "environment",
    "failing_storage",
    "must_fit",
    "must_have",
    "must_offer",
    "must_share_files",
    "must_store",
    "offers",
    "register_environment",
    "remedy_for",
    "sweep",
    "unused_options",
]


def __getattr__(name: str) -> Any:
    found: dict[str, Any] = {
        kind.__name__: kind for kind in registry.environments().values() if isinstance(kind, type)
    }
    found["ENVIRONMENTS"] = registry.ENVIRONMENTS
    if name in found:
        return found[name]
    raise AttributeError(f"module 'chaoskit.environments' has no attribute {name!r}")
