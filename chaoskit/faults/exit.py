"""`exit`: a rank leaves with an exit code of its own, 0 included, which no monitor takes for a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanOrder, CanSignal, Process
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, check_ranks, resolve_ranks, show_ranks


@dataclass(frozen=True)
class Exit:
    """See `exit`."""

    rank: int
    code: int
    name = "exit"
    needs = (CanOrder, CanSignal)
    heal_after = None
    heal_launches = None

    def victims(self, world_size: int) -> Sequence[int]:
        return resolve_ranks(self.name, self.rank, world_size)

    def apply(self, env: Any, world_size: int) -> Mapping[str, Any]:
        (rank,) = self.victims(world_size)
        process = env.rank_process(rank)
        env.order(rank, {"do": "exit", "code": self.code})
        return {"pid": process.pid, "started": process.started, "code": self.code}

    def observed(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if env.state(Process(applied["pid"], applied["started"])) == "gone":
            return {"gone": [applied["pid"]]}
        return None

    def heal(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "rank": self.rank, "code": self.code}

    def __str__(self) -> str:
        return f"exit {show_ranks(self.rank)} with code {self.code}"


def exit(*, rank: int, code: int = 0) -> Fault:
    """Let `rank` end itself with `code` at its trigger, without any clean-up of its own (`os._exit`).

    Observed once the process is gone. Raises UsageError for a rank or a code that does not exist.
    """
    check_ranks("exit", rank)
    if not isinstance(rank, int):
        raise UsageError(f"exit: one rank at a time, not {rank!r}")
    if not 0 <= code <= 255:
        raise UsageError(f"exit: a code is a whole number from 0 to 255, not {code!r}")
    return Fault(Exit(rank, code))
