"""`kill`: a signal, SIGKILL unless told otherwise, to one rank, several, all of them, or the launcher."""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanSignal, Process
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, RankSpec, check_ranks, resolve_ranks, show_ranks


@dataclass(frozen=True)
class Kill:
    """See `kill`."""

    rank: RankSpec
    launcher: bool
    signal: int
    name = "kill"
    needs = (CanSignal,)
    heal_after = None
    heal_launches = None

    def victims(self, world_size: int) -> Sequence[int]:
        return resolve_ranks(self.name, "all" if self.launcher else self.rank, world_size)

    def apply(self, env: CanSignal, world_size: int) -> Mapping[str, Any]:
        targets = list(env.launcher_processes()) if self.launcher else []
        if not self.launcher or self.signal == signals.SIGKILL:
            targets += self._ranks(env, world_size)
        sent = [target for target in targets if env.signal(target, self.signal)]
        if len(sent) < len(targets):
            raise LookupError("a process was gone before the signal reached it")
        return {"pids": [t.pid for t in sent], "started": [t.started for t in sent], "signal": self.signal}

    def _ranks(self, env: CanSignal, world_size: int) -> list[Process]:
        """The struck ranks; of a node that is lost, those that have come up."""
        found = []
        for rank in self.victims(world_size):
            try:
                found.append(env.rank_process(rank))
            except LookupError:
                if not self.launcher:
                    raise
        return found

    def observed(self, env: CanSignal, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        targets = [Process(*pair) for pair in zip(applied["pids"], applied["started"], strict=True)]
        if all(env.state(target) == "gone" for target in targets):
            return {"gone": applied["pids"]}
        signum = applied["signal"]
        if signum != signals.SIGKILL and all(env.delivered(t, signum) for t in targets):
            return {"delivered": applied["pids"]}
        return None

    def heal(self, env: CanSignal, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        rank = list(self.rank) if isinstance(self.rank, tuple) else self.rank
        return {"kind": self.name, "rank": rank, "launcher": self.launcher, "signal": self.signal}

    def __str__(self) -> str:
        lost = self.launcher and self.signal == signals.SIGKILL
        whom = "the launcher and its ranks" if lost else "the launcher" if self.launcher else show_ranks(self.rank)
        how = "" if self.signal == signals.SIGKILL else f" with {signals.Signals(self.signal).name}"
        return f"kill {whom}{how}"


def kill(*, rank: RankSpec | None = None, launcher: bool = False, signal: int = signals.SIGKILL) -> Fault:
    """Kill `rank` (a number, negative from the last; a tuple; 'all') or, with `launcher`, lose the node.

    A node that is lost takes everything along, so SIGKILL strikes the launcher and its ranks at once; any other signal
    goes to the launcher alone, which passes it on as it sees fit (SIGTERM: preemption).

    Observed once every struck process is gone, or has taken a signal that it handles itself. Raises UsageError for a
    rank or a signal that does not exist.
    """
    if launcher == (rank is not None):
        raise UsageError("kill: give rank=... or launcher=True (one of the two)")
    check_ranks("kill", rank if rank is not None else "all")
    if signal not in set(signals.Signals) or signal in (signals.SIGSTOP, signals.SIGCONT):
        raise UsageError(f"kill: {signal!r} is no signal that ends a process; to stop one, use pause")
    return Fault(Kill(rank if rank is not None else "all", launcher, int(signal)))
