"""What the faults that cut the network share: the ways, the packets that were stopped, and that all is open again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any, Literal

from chaoskit.capabilities import CanPartition, Way


def between(groups: Sequence[Sequence[str]]) -> list[Way]:
    """Every way from a node of one group to a node of another."""
    return [(a, b) for one, other in permutations(groups, 2) for a in one for b in other]


def around(nodes: Sequence[str], known: Sequence[str]) -> list[Way]:
    """Every way that begins or ends at one of these nodes."""
    return [way for way in permutations(known, 2) if set(way) & set(nodes)]


def begin(
    env: CanPartition, ways: Sequence[Way], *, how: Literal["drop", "reset"] = "drop", percent: float = 100.0
) -> dict[str, Any]:
    """Cut the ways; the cut's number and its ways as `applied`. Raises LookupError where there are none."""
    if not ways:
        raise LookupError("there is no other node")
    return {"cut": env.cut(ways, how=how, percent=percent), "ways": [show(way) for way in ways]}


def stopped(env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Evidence that packets of the job were stopped (`lost`, by way), and when that was first seen (`since`, on the
    clock of the record)."""
    lost = dict(env.lost(applied["cut"]))
    return {"lost": lost, "since": time.monotonic()} if any(lost.values()) else None


def closed(
    env: CanPartition, applied: Mapping[str, Any], *, still_open: Iterable[str] = ()
) -> Mapping[str, Any] | None:
    """The same, once nothing at all comes through on the ways of the cut, and something does on those still open."""
    seen = stopped(env, applied)
    if seen is None:
        return None
    shut, passable = reaches(env, applied["ways"]), reaches(env, still_open)
    if any(shut.values()) or not all(passable.values()):
        return None
    return {**seen, "reaches": {**shut, **passable}}


def mend(env: CanPartition, applied: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let everything through again: how much was stopped in all, and whether each way is open now."""
    lost = dict(env.lost(applied["cut"]))
    env.mend(applied["cut"])
    return {"lost": lost, "reaches_again": reaches(env, applied["ways"])}


def reaches(env: CanPartition, ways: Iterable[str]) -> dict[str, bool]:
    """Whether a datagram comes through, by way; ways of a node that is not up are left out."""
    up = set(env.nodes())
    return {way: env.reaches(*read(way)) for way in ways if up.issuperset(read(way))}


def show(way: Way) -> str:
    """'node0>node1', as `lost` counts."""
    return ">".join(way)


def read(way: str) -> Way:
    """The inverse of `show`."""
    source, _, target = way.partition(">")
    return source, target
