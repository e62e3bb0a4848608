"""`ClusterFinding`: one line of `chaoskit kubernetes check`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ClusterFinding:
    """`what` was examined, what was `found`, whether it is `good`, and the remedy if not. Without what is `needed`
    there can be no run."""

    what: str
    found: str
    good: bool = True
    remedy: str = ""
    needed: bool = True

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)
