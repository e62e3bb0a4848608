"""`pause`: a rank is frozen (SIGSTOP) for a time and then goes on, as after a stalled disk or a paging storm."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanSignal, Process
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, RankSpec, check_ranks, resolve_ranks, show_ranks


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
        return {"pids": [t.pid for t in targets], "started": [t.started for t in targets]}

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


def _targets(applied: Mapping[str, Any]) -> list[Process]:
    return [Process(*pair) for pair in zip(applied["pids"], applied["started"], strict=True)]


def pause(*, rank: RankSpec, seconds: float) -> Fault:
    """Freeze `rank` for `seconds`. Observed once the kernel reports it stopped; healed by SIGCONT.

    Raises UsageError for a rank that does not exist or a time that is not positive.
    """
    check_ranks("pause", rank)
    if not 0 < seconds < float("inf"):
        raise UsageError(f"pause: seconds must be a positive number, not {seconds!r}")
    return Fault(Pause(rank, float(seconds)))
