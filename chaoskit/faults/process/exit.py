"""`exit`: a rank ends with an exit code of its own; no monitor takes 0 for a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanOrder, CanSignal, ProcessRef
from chaoskit.faults.fault import Fault, resolve_ranks, show_ranks
from chaoskit.faults.registry import fault
from chaoskit.validation import check_whole


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
        return {"pid": process.pid, "process": process.key, "code": self.code}

    def observed(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if env.state(ProcessRef(applied["pid"], applied["process"])) == "gone":
            return {"gone": [applied["pid"]]}
        return None

    def heal(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "rank": self.rank, "code": self.code}

    def __str__(self) -> str:
        return f"exit {show_ranks(self.rank)} with code {self.code}"


@fault("exit", Exit)
def exit(*, rank: int, code: int = 0) -> Fault:
    """End `rank` with exit code `code` at its trigger, without any clean-up (`os._exit`).

    Observed once the process is gone. Raises UsageError for a rank or a code that is not valid.
    """
    check_whole("exit", "rank", rank)
    check_whole("exit", "code", code, least=0, most=255)
    return Fault(Exit(rank, code))
