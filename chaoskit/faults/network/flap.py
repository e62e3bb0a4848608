"""`flap`: the link of a node goes down and comes up again, several times, as with a bad cable or a busy switch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanPartition
from chaoskit.faults.fault import Fault
from chaoskit.faults.network.cuts import Cut
from chaoskit.faults.network.ways import AroundNodes, reaches, read
from chaoskit.faults.node.nodes import show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_whole


@dataclass(frozen=True)
class Flap:
    """See `flap`. `applied` holds the cut that is in force (None: the link is up), how often the link has been
    down, and how many packets earlier cuts stopped.
    """

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
        cut = Cut(name=self.name, given={}, ways=AroundNodes(self.node), heal_after=self.down, text=str(self))
        return {**cut.apply(env, world_size), "begun": time.monotonic(), "downs": 1, "earlier": {}}

    def tick(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        passed = time.monotonic() - applied["begun"]
        down = passed < self.heal_after and passed % (self.down + self.up) < self.down
        if down == (applied["cut"] is not None):
            return applied
        if down:
            cut = env.cut([read(way) for way in applied["ways"]])
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
        return {"lost": lost, "downs": applied["downs"], "reaches_again": reaches(env, applied["ways"])}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "node": self.node, "times": self.times, "down": self.down, "up": self.up}

    def __str__(self) -> str:
        often = f"{self.times} time{'s' if self.times > 1 else ''}"
        return f"flap the link of {show_nodes(self.node)} {often}, {self.down:g} s down and {self.up:g} s up"


def _lost(env: CanPartition, applied: Mapping[str, Any]) -> dict[str, int]:
    """How many packets all cuts together have stopped, by way."""
    lost = Counter(applied["earlier"])
    if applied["cut"] is not None:
        lost.update(env.lost(applied["cut"]))
    return dict(lost)


@fault("flap", Flap)
def flap(*, node: int = 1, times: int = 3, down: float = 0.5, up: float = 0.5) -> Fault:
    """Take the link of `node` down for `down` seconds, then let it be up for `up` seconds; do that `times` times.

    Observed once packets of the job were stopped; the evidence of the repair says how often the link was down.
    Raises UsageError for a node that is not a whole number, and for a number of times or a time that is not
    positive.
    """
    check_whole("flap", "node", node)
    check_whole("flap", "times", times, least=1)
    seconds = [check_number("flap", name, value, over=0) for name, value in (("down", down), ("up", up))]
    return Fault(Flap(node, times, *seconds))
