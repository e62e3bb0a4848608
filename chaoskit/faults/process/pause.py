"""`pause`: a rank is frozen (SIGSTOP) for a time, as by a stalled disk or heavy paging."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanSignal, ProcessRef
from chaoskit.faults.fault import Fault, RankSpec, resolve_ranks, show_ranks
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_numbered


@dataclass(frozen=True)
class Pause:
    """See `pause`."""

    rank: RankSpec
    heal_after: float
    name = "pause"
    needs = (CanSignal,)
    heal_launches = None

    def victims(self, world_size: int) -> Sequence[int]:
        return resolve_ranks(self.name, self.rank, world_size)

    def apply(self, env: CanSignal, world_size: int) -> Mapping[str, Any]:
        targets = [env.rank_process(rank) for rank in self.victims(world_size)]
        for target in targets:
            if not env.signal(target, signal.SIGSTOP):
                raise LookupError("a process was gone before the signal reached it")
        return {"pids": [t.pid for t in targets], "processes": [t.key for t in targets]}

    def observed(self, env: CanSignal, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if all(env.state(target) == "stopped" for target in _targets(applied)):
            return {"stopped": applied["pids"]}
        return None

    def heal(self, env: CanSignal, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"continued": [t.pid for t in _targets(applied) if env.signal(t, signal.SIGCONT)]}

    def to_json(self) -> dict[str, Any]:
        rank = list(self.rank) if isinstance(self.rank, tuple) else self.rank
        return {"kind": self.name, "rank": rank, "seconds": self.heal_after}

    def __str__(self) -> str:
        return f"pause {show_ranks(self.rank)} for {self.heal_after:g} s"


def _targets(applied: Mapping[str, Any]) -> list[ProcessRef]:
    return [ProcessRef(*pair) for pair in zip(applied["pids"], applied["processes"], strict=True)]


@fault("pause", Pause)
def pause(*, rank: RankSpec, seconds: float) -> Fault:
    """Freeze `rank` for `seconds`.

    Observed once the kernel reports that it is stopped; healed by SIGCONT. Raises UsageError for a rank that is not
    valid, and for a time that is not positive.
    """
    check_numbered("pause", "rank", rank)
    return Fault(Pause(rank, check_number("pause", "seconds", seconds, over=0)))
