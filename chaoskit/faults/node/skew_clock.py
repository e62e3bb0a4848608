"""`skew_clock`: the wall clock of a node jumps, forward or back, and is wrong for a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanSkewClock
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_whole, is_all

#: Seconds by which a clock may be off by itself, and by which it jumps at least.
NEAR, LEAST = 0.25, 1.0
_YEAR = 366 * 86400.0


@dataclass(frozen=True)
class SkewClock:
    """See `skew_clock`."""

    node: int | str
    by: float
    heal_after: float
    name = "skew_clock"
    needs = (CanSkewClock,)
    heal_launches = None
    # A rank looks at its clock when it goes on.
    holds = False
    observe_within = math.inf
    tick_every = 0.25

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.node,) if isinstance(self.node, int) else ()

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanSkewClock, world_size: int) -> Mapping[str, Any]:
        node = self.node if isinstance(self.node, int) else None
        return {"skew": env.skew_clock(node, by=self.by), "by": self.by}

    def tick(self, env: CanSkewClock, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        """Set the clocks of processes that have started since."""
        env.keep_clock(applied["skew"])
        return applied

    def observed(self, env: CanSkewClock, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = env.clock_skewed(applied["skew"])
        there = found["ranks"].values()
        if not there or any(abs(off - self.by) > NEAR for off in there):
            return None
        if any(abs(off) > NEAR for off in found["others"].values()):
            return None
        return dict(found)

    def heal(self, env: CanSkewClock, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        found = env.clock_skewed(applied["skew"])
        env.set_clock_right(applied["skew"])
        return dict(found)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node, "by": self.by, "seconds": self.heal_after}

    def __str__(self) -> str:
        way = "forward" if self.by > 0 else "back"
        return f"set the clock of {show_nodes(self.node)} {way} by {abs(self.by):g} s"


@fault("skew_clock", SkewClock)
def skew_clock(*, node: int | str, by: float, seconds: float) -> Fault:
    """Let the wall clock of `node` (a number, negative from the last, or 'all') be wrong by `by` seconds for `seconds`.

    A negative `by` sets it back. It jumps for every process of the job that runs on the node; monotonic clocks, and the
    times of files, stay right. Processes that start later have the wrong time too, within about a second; on pods they
    have the right one, because Chaos Mesh chooses processes once. Observed once every rank of the node has recorded
    that its clock jumped so far, and no rank of another node that its own did. Raises UsageError for another node, for
    a jump of less than a second, and for a time that is not positive.
    """
    if not is_all(node):
        check_whole("skew_clock", "node", node, also="'all'")
    off = check_number("skew_clock", "by", by, least=-_YEAR, most=_YEAR)
    if abs(off) < LEAST:
        raise UsageError(f"skew_clock: by must be a second at least, forward or back, not {by!r}")
    return Fault(SkewClock(node, off, check_number("skew_clock", "seconds", seconds, over=0)))
