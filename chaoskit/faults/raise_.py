"""`raise_`: an exception inside the rank, out of memory included, at the place where the trigger stopped it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import CanOrder
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, check_ranks, resolve_ranks, show_ranks

#: What the probe can raise by name; `OutOfMemoryError` is torch's.
EXCEPTIONS = ("RuntimeError", "OutOfMemoryError", "MemoryError", "OSError", "ConnectionError", "KeyboardInterrupt")

#: What they say unless told otherwise. An OSError is one that a failing disk gives.
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


def raise_(*, rank: int, type: str = "RuntimeError", message: str | None = None) -> Fault:
    """Raise an exception in `rank` at its trigger: one of `EXCEPTIONS`, 'OutOfMemoryError' among them.

    Observed once the rank has written down that it raises. Raises UsageError for an unknown rank or exception.
    """
    check_ranks("raise_", rank)
    if not isinstance(rank, int):
        raise UsageError(f"raise_: one rank at a time, not {rank!r}")
    if type not in EXCEPTIONS:
        raise UsageError(f"raise_: type must be one of {', '.join(EXCEPTIONS)}, not {type!r}")
    said = message if message is not None else MESSAGES.get(type, "injected by chaoskit")
    return Fault(Raise(rank, type, said))
