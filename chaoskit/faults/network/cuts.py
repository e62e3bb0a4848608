"""`Cut`: the action of the faults that stop packets between nodes for a time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from chaoskit.capabilities import CanPartition, CanReset
from chaoskit.faults.network.ways import Ways, reaches, show


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Stop the packets on these `ways` for `heal_after` seconds. `name` is the function that made the fault,
    `given` its arguments besides `seconds`, and `text` says what it does.

    `percent` of the packets are stopped: all, unless the fault thins out. They are dropped or, if it `resets`, answered
    with a reset: `needs` must then say so. A cut that `closes` its ways counts as observed once nothing gets through
    them, and, if it closes one direction only, once the way back is proved open.
    """

    name: str
    given: Mapping[str, Any] = field(hash=False)
    ways: Ways
    heal_after: float
    text: str
    percent: float = 100.0
    resets: bool = False
    closes: bool = True
    needs: tuple[type, ...] = field(default=(CanPartition,), hash=False)
    heal_launches = None
    holds = False

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return self.ways.nodes_meant

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanPartition, world_size: int) -> Mapping[str, Any]:
        ways = self.ways.among(self.name, env.nodes())
        if not ways:
            raise LookupError("there is no other node")
        back = [] if not self.closes else [(b, a) for a, b in ways if (b, a) not in ways]
        cut = cast(CanReset, env).reset(ways) if self.resets else env.cut(ways, percent=self.percent)
        opened = {"open": [show(way) for way in back]} if back else {}
        return {"cut": cut, "ways": [show(way) for way in ways], **opened}

    def observed(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Packets of the job were stopped (`lost`, by way), first seen at `since` on the clock of the record."""
        lost = dict(env.lost(applied["cut"]))
        if not any(lost.values()):
            return None
        seen = {"lost": lost, "since": time.monotonic()}
        if not self.closes:
            return seen
        closed, back = reaches(env, applied["ways"]), reaches(env, applied.get("open", ()))
        return None if any(closed.values()) or not all(back.values()) else {**seen, "reaches": {**closed, **back}}

    def heal(self, env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        """Let everything through again; report how much was stopped in all, and whether each way is open now."""
        lost = dict(env.lost(applied["cut"]))
        env.mend(applied["cut"])
        return {"lost": lost, "reaches_again": reaches(env, applied["ways"])}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, **self.given, "seconds": self.heal_after}

    def __str__(self) -> str:
        return self.text
