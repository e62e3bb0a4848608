"""`flap`: the link of a node goes down and comes up again, several times, as with a bad cable or a busy switch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanPartition
from chaoskit.errors import UsageError
from chaoskit.faults import cuts
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.nodes import check_node, resolve_nodes, show_nodes


@dataclass(frozen=True)
class Flap:
    """See `flap`. What is `applied` holds the cut that is in force (None: the link is up), how often it has been down,
    and what earlier cuts have stopped."""

    node: int
    times: int
    down: float
    up: float
    name = "flap"
    needs = (CanPartition,)
    heal_launches = None
    holds = False

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return (self.node,)

    @property
    def heal_after(self) -> float:
        return self.times * (self.down + self.up)

    @property
    def tick_every(self) -> float:
        return max(0.005, min(0.05, self.down / 10, self.up / 10))

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanPartition, world_size: int) -> Mapping[str, Any]:
        known = env.nodes()
        begun = cuts.begin(env, cuts.around(resolve_nodes(self.name, self.node, known), known))
        return {**begun, "begun": time.monotonic(), "downs": 1, "earlier": {}}

    def tick(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        passed = time.monotonic() - applied["begun"]
        down = passed < self.heal_after and passed % (self.down + self.up) < self.down
        if down == (applied["cut"] is not None):
            return applied
        if down:
            cut = env.cut([cuts.read(way) for way in applied["ways"]])
            return {**applied, "cut": cut, "downs": applied["downs"] + 1}
        lost = _lost(env, applied)
        env.mend(applied["cut"])
        return {**applied, "cut": None, "earlier": lost}

    def observed(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        lost = _lost(env, applied)
        return {"lost": lost, "since": time.monotonic()} if any(lost.values()) else None

    def heal(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        lost = _lost(env, applied)
        if applied["cut"] is not None:
            env.mend(applied["cut"])
        return {"lost": lost, "downs": applied["downs"], "reaches_again": cuts.reaches(env, applied["ways"])}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node, "times": self.times, "down": self.down, "up": self.up}

    def __str__(self) -> str:
        often = f"{self.times} time{'s' if self.times > 1 else ''}"
        return f"flap the link of {show_nodes(self.node)} {often}, {self.down:g} s down and {self.up:g} s up"


def _lost(env: CanPartition, applied: Mapping[str, Any]) -> dict[str, int]:
    """What all cuts together have stopped, by way."""
    lost = Counter(applied["earlier"])
    if applied["cut"] is not None:
        lost.update(env.lost(applied["cut"]))
    return dict(lost)


def flap(*, node: int = 1, times: int = 3, down: float = 0.5, up: float = 0.5) -> Fault:
    """Take the link of `node` down for `down` seconds and let it be up for `up`, `times` times over.

    Observed once packets of the job were stopped; how often the link was down is told when it is healed. Raises
    UsageError for what is no node, and for a number of times or a time that is not positive.
    """
    check_node("flap", node)
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise UsageError(f"flap: times must be a whole number from 1, not {times!r}")
    return Fault(Flap(node, times, check_number("flap", "down", down), check_number("flap", "up", up)))
