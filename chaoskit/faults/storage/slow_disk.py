"""`slow_disk`: the disk of a rank or a node is slow for a time, as one that others use heavily."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanLimitDisk
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.limited import Limited, check_limited
from chaoskit.faults.registry import fault
from chaoskit.faults.storage.fail_storage import Lasting, check_lasting
from chaoskit.validation import check_whole


@dataclass(frozen=True)
class SlowDisk:
    """See `slow_disk`."""

    where: Limited
    rate: int
    lasting: Lasting
    name = "slow_disk"
    needs = (CanLimitDisk,)
    heal_launches = None
    # The job reads and writes only while its ranks go on, and perhaps late.
    holds = False
    unhurried = True
    observe_within = math.inf

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return self.where.nodes_meant

    @property
    def heal_after(self) -> float | None:
        return self.lasting.seconds

    @property
    def heal_step(self) -> int | None:
        return self.lasting.until_step

    def victims(self, world_size: int) -> Sequence[int]:
        return self.where.victims(self.name, world_size)

    def apply(self, env: CanLimitDisk, world_size: int) -> Mapping[str, Any]:
        target = self.where.target(self.name, world_size)
        return {"limit": env.limit_disk(target, rate=self.rate), "bytes_per_second": self.rate}

    def observed(self, env: CanLimitDisk, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = env.disk_limited(applied["limit"])
        return dict(found) if found["seconds"] > 0 else None

    def heal(self, env: CanLimitDisk, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        found = dict(env.disk_limited(applied["limit"]))
        env.lift_disk(applied["limit"])
        return found

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, **self.where.to_json(), "bytes_per_second": self.rate, **self.lasting.to_json()}

    def __str__(self) -> str:
        return f"limit the disk of {self.where} to {self.rate} bytes/s {self.lasting}"


@fault("slow_disk", SlowDisk)
def slow_disk(
    *,
    rank: int | None = None,
    node: int | None = None,
    bytes_per_second: int,
    seconds: float | None = None,
    until_step: int | None = None,
) -> Fault:
    """Let `rank` or `node` (a number, negative from the last) read and write the disk of `{out}` at
    `bytes_per_second` each.

    The kernel limits the disk itself, so a data set that lies on it is slow too; `slow_storage` delays single kinds
    of requests to `{out}`. With control groups v1, the kernel limits only what a process waits for: reads that are
    not cached, synchronous writes and fsync. The fault ends after `seconds`, or when a rank is about to take step
    `until_step`. Observed once requests had to wait. Raises UsageError unless exactly one of `rank` and `node` is
    given, for a number that is not valid, and if nothing ends the fault.
    """
    where = check_limited("slow_disk", rank, node)
    rate = check_whole("slow_disk", "bytes_per_second", bytes_per_second, least=1024)
    return Fault(SlowDisk(where, rate, check_lasting("slow_disk", seconds=seconds, until_step=until_step)))
