"""`claimed`: what a controller of faults says of those in force, for the evidence of a fault. It proves nothing."""

from __future__ import annotations

from typing import Any

from chaoskit.capabilities import CanShowClaims
from chaoskit.environments.environment import Environment


def claimed(env: Environment) -> dict[str, Any]:
    """Under `claimed`, what `CanShowClaims` shows; nothing where nobody claims anything."""
    said = [dict(one) for one in env.claims()] if isinstance(env, CanShowClaims) else []
    return {"claimed": said} if said else {}
