"""`raise_`: an exception inside the rank, out of memory included, at the point where the trigger stopped it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanOrder
from chaoskit.faults.fault import Fault, resolve_ranks, show_ranks
from chaoskit.faults.registry import fault
from chaoskit.validation import check_choice, check_text, check_whole

#: The exceptions that the probe can raise; `OutOfMemoryError` is torch's.
EXCEPTIONS = ("RuntimeError", "OutOfMemoryError", "MemoryError", "OSError", "ConnectionError", "KeyboardInterrupt")

#: Their messages, if not the usual one. The OSError is that of a failing disk.
MESSAGES = {"OSError": "[Errno 5] Input/output error (injected by chaoskit)"}


@dataclass(frozen=True)
class Raise:
    """See `raise_`."""

    rank: int
    type: str
    message: str
    name = "raise"
    needs = (CanOrder,)
    heal_after = None
    heal_launches = None

    def victims(self, world_size: int) -> Sequence[int]:
        return resolve_ranks(self.name, self.rank, world_size)

    def apply(self, env: CanOrder, world_size: int) -> Mapping[str, Any]:
        (rank,) = self.victims(world_size)
        env.order(rank, {"do": "raise", "type": self.type, "message": self.message})
        return {"rank": rank, "type": self.type}

    def observed(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if env.raised(applied["rank"]):
            return {"raised": applied["type"]}
        return None

    def heal(self, env: CanOrder, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "rank": self.rank, "type": self.type, "message": self.message}

    def __str__(self) -> str:
        return f"raise {self.type} in {show_ranks(self.rank)}"


@fault("raise", Raise)
def raise_(*, rank: int, type: str = "RuntimeError", message: str | None = None) -> Fault:
    """Raise an exception in `rank` at its trigger: one of `EXCEPTIONS`, 'OutOfMemoryError' included.

    Observed once the rank has reported that it raises. Raises UsageError for an unknown rank or exception.
    """
    check_whole("raise_", "rank", rank)
    check_choice("raise_", "type", type, EXCEPTIONS)
    if message is not None:
        check_text("raise_", "message", message)
    text = message if message is not None else MESSAGES.get(type, "injected by chaoskit")
    return Fault(Raise(rank, type, text))
