"""`out_of_memory`: the kernel kills for want of memory, without a word to the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanLimitMemory, CanSignal
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.limited import Limited, check_limited
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_whole


@dataclass(frozen=True)
class OutOfMemory:
    """See `out_of_memory`."""

    where: Limited
    leave: int
    heal_after: float
    name = "out_of_memory"
    needs = (CanLimitMemory, CanSignal)
    # At the latest when the launch ends: the next one has its memory back.
    heal_launches = 0
    # A rank that waits at its gate takes no memory.
    holds = False
    tick_every = 0.05

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return self.where.nodes_meant

    def victims(self, world_size: int) -> Sequence[int]:
        return self.where.victims(self.name, world_size)

    def apply(self, env: Any, world_size: int) -> Mapping[str, Any]:
        target = self.where.target(self.name, world_size)
        whom = {} if target.rank is None else {"pid": env.rank_process(target.rank).pid}
        return {"limit": env.limit_memory(target, leave=self.leave), **whom}

    def tick(self, env: CanLimitMemory, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        """Lower the limit again when the memory in use has fallen."""
        env.lower_memory(applied["limit"])
        return applied

    def observed(self, env: CanLimitMemory, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = env.memory_limited(applied["limit"])
        gone = found["gone"] if "pid" not in applied else [pid for pid in found["gone"] if pid == applied["pid"]]
        if gone and found["kills"]:
            # What takes the place of the victim has its memory back at once.
            env.lift_memory(applied["limit"])
            return {"killed_by_kernel": found["kills"], "gone": gone, "bytes": found["limit"]}
        if gone and "pid" in applied:
            raise LookupError(f"{self.where} ended, but the kernel had not killed it for want of memory")
        return None

    def heal(self, env: CanLimitMemory, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        found = env.memory_limited(applied["limit"])
        env.lift_memory(applied["limit"])
        return {"killed_by_kernel": found["kills"], "used": found["used"], "bytes": found["limit"]}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, **self.where.to_json(), "leave": self.leave, "seconds": self.heal_after}

    def __str__(self) -> str:
        left = f", {self.leave} bytes left" if self.leave else ""
        return f"let {self.where} run out of memory{left}"


@fault("out_of_memory", OutOfMemory)
def out_of_memory(
    *, rank: int | None = None, node: int | None = None, leave: int = 0, seconds: float = 30.0
) -> Fault:
    """Let `rank` or `node` (a number, negative from the last) run out of memory, so that the kernel kills.

    The limit of a control group falls to the memory in use and `leave` bytes more, and follows when less is in
    use. The kernel chooses whom it kills: of a rank and its children the rank first, of a node the process that
    holds most. The limit ends with the kill, and after `seconds` at the latest. Observed once the kernel has
    counted a kill for want of memory and the process is gone; a rank that ends otherwise is no effect. Raises
    UsageError unless exactly one of `rank` and `node` is given, and for a number that is not valid.
    """
    where = check_limited("out_of_memory", rank, node)
    check_whole("out_of_memory", "leave", leave, least=0)
    return Fault(OutOfMemory(where, leave, check_number("out_of_memory", "seconds", seconds, over=0)))
