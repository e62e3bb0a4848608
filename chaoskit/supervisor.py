"""`Supervisor`: what a cluster's scheduler does when a node of a job is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from chaoskit.errors import UsageError

POLICIES = ("returns", "spare", "gone")
RESTARTS = ("auto", "job", "node")


@dataclass(frozen=True, kw_only=True)
class Supervisor:
    """The policy for a node that is lost as a whole: `after` seconds it `returns`, rebooted and with an empty scratch
    directory, or a hot `spare` takes its place, a host of another name; or it is `gone` for good, and the job goes on
    with what is left, if it may.

    What is started again by then: the whole `job`, for which the agents of the other nodes are told to end, or the lost
    `node` alone, whose agent joins them. `auto` is the job for a fixed number of nodes, the node for a range of them.

    An agent that fails by itself is no lost node: then the others are told to end at once, as by a scheduler that
    starts a job as a whole or not at all, and all of them are launched again.
    """

    lost: Literal["returns", "spare", "gone"] = "returns"
    after: float = 0.0
    restarts: Literal["auto", "job", "node"] = "auto"

    def __post_init__(self) -> None:
        if self.lost not in POLICIES:
            raise UsageError(f"Supervisor: lost must be one of {', '.join(POLICIES)}, not {self.lost!r}")
        if self.restarts not in RESTARTS:
            raise UsageError(f"Supervisor: restarts must be one of {', '.join(RESTARTS)}, not {self.restarts!r}")
        number = isinstance(self.after, int | float) and not isinstance(self.after, bool)
        if not number or not 0 <= self.after < float("inf"):
            raise UsageError(f"Supervisor: after must be a number of seconds from 0, not {self.after!r}")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Supervisor:
        """The inverse of `to_json`."""
        return cls(**data)
