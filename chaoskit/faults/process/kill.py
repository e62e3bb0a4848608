"""`kill`: a signal (SIGKILL by default) to one rank, several, all of them, or the launcher."""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanSignal, ProcessRef
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, RankSpec, resolve_ranks, show_ranks
from chaoskit.faults.registry import fault
from chaoskit.validation import check_flag, check_numbered, check_whole


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
        launchers = list(env.launcher_processes()) if self.launcher else []
        ranks = self._ranks(env, world_size) if not self.launcher or self.signal == signals.SIGKILL else []
        # Without a launcher of its own the job's command is its one rank.
        targets = list(dict.fromkeys((*launchers, *ranks)))
        sent = [target for target in targets if env.signal(target, self.signal)]
        # A rank may end with its launcher, before it is its turn.
        if not set(launchers or targets) <= set(sent):
            raise LookupError("a process was gone before the signal reached it")
        return {"pids": [t.pid for t in sent], "processes": [t.key for t in sent], "signal": self.signal}

    def _ranks(self, env: CanSignal, world_size: int) -> list[ProcessRef]:
        """The processes to kill; if the node is lost, those of its ranks that have started."""
        found = []
        for rank in self.victims(world_size):
            try:
                found.append(env.rank_process(rank))
            except LookupError:
                if not self.launcher:
                    raise
        return found

    def observed(self, env: CanSignal, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        targets = [ProcessRef(*pair) for pair in zip(applied["pids"], applied["processes"], strict=True)]
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


@fault("kill", Kill)
def kill(*, rank: RankSpec | None = None, launcher: bool = False, signal: int = signals.SIGKILL) -> Fault:
    """Kill `rank` (a number, negative from the last; a tuple; 'all') or, with `launcher`, the whole node.

    A lost node takes everything with it, so SIGKILL ends the launcher and its ranks at once. Any other signal goes
    to the launcher alone, which passes it on or not (SIGTERM: preemption).

    Observed once every process is gone, or has received a signal that it handles. Raises UsageError for a rank or a
    signal that is not valid.
    """
    check_flag("kill", "launcher", launcher)
    if launcher == (rank is not None):
        raise UsageError("kill: give rank=... or launcher=True (one of the two)")
    check_numbered("kill", "rank", rank if rank is not None else "all")
    check_whole("kill", "signal", signal)
    if signal not in set(signals.Signals) or signal in (signals.SIGSTOP, signals.SIGCONT):
        raise UsageError(f"kill: signal: {signal!r} is no signal that ends a process; to stop one, use pause")
    return Fault(Kill(rank if rank is not None else "all", launcher, int(signal)))
