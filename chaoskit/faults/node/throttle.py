"""`throttle`: a rank or a node gets a share of a processor for a time, and the others wait for it: a straggler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanLimitProcessor
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.limited import Limited, check_limited
from chaoskit.faults.registry import fault
from chaoskit.faults.storage.fail_storage import Lasting, check_lasting
from chaoskit.validation import check_number


@dataclass(frozen=True)
class Throttle:
    """See `throttle`."""

    where: Limited
    cpu: float
    lasting: Lasting
    name = "throttle"
    needs = (CanLimitProcessor,)
    heal_launches = None
    # A rank that waits at its gate computes nothing.
    holds = False
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

    def apply(self, env: CanLimitProcessor, world_size: int) -> Mapping[str, Any]:
        target = self.where.target(self.name, world_size)
        return {"limit": env.limit_processor(target, cpu=self.cpu), "cpu": self.cpu}

    def observed(self, env: CanLimitProcessor, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = env.processor_limited(applied["limit"])
        return dict(found) if found["felt"] else None

    def heal(self, env: CanLimitProcessor, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        env.lift_processor(applied["limit"])
        return dict(env.processor_limited(applied["limit"]))

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, **self.where.to_json(), "cpu": self.cpu, **self.lasting.to_json()}

    def __str__(self) -> str:
        return f"throttle {self.where} to {self.cpu:g} processors {self.lasting}"


@fault("throttle", Throttle)
def throttle(
    *,
    rank: int | None = None,
    node: int | None = None,
    cpu: float,
    seconds: float | None = None,
    until_step: int | None = None,
) -> Fault:
    """Let `rank` or `node` (a number, negative from the last) use no more than `cpu` processors, such as 0.25.

    The fault ends after `seconds`, or when a rank is about to take step `until_step`. Observed once the kernel has
    counted a period in which the rank or the node had to wait; on pods, where Chaos Mesh starts processes that take
    the rest, once the ranks had to wait for these. Raises UsageError unless exactly one of `rank` and
    `node` is given, for a number that is not valid, and if nothing ends the fault.
    """
    where = check_limited("throttle", rank, node)
    share = check_number("throttle", "cpu", cpu, least=0.01)
    return Fault(Throttle(where, share, check_lasting("throttle", seconds=seconds, until_step=until_step)))
