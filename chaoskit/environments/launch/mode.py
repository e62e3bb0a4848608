"""`Mode`: how a job's commands are launched, warm or cold, and the reason if it differs from what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.errors import UsageError

#: What may be wished for. `auto` launches warm wherever that was shown to make no difference.
WISHES = ("auto", "cold", "warm")


@dataclass(frozen=True)
class Mode:
    """`modules` and `threads` are what a warm parent takes over from the ranks; see `WarmLauncher`. `captures` are
    the functions that hold the process group in a fresh rank; see `chaoskit.probe.captures`. `reason` says why a
    launch is cold. `demanded`: fail instead of launching cold.
    """

    warm: bool = False
    reason: str = ""
    modules: tuple[str, ...] = ()
    captures: tuple[tuple[str, str, int], ...] = ()
    threads: str | None = None
    demanded: bool = False

    def __str__(self) -> str:
        return "warm" if self.warm else f"cold: {self.reason}" if self.reason else "cold"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        return {**self.__dict__, "modules": list(self.modules), "captures": [list(c) for c in self.captures]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Mode:
        """The inverse of `to_json`."""
        captures = tuple((str(module), str(name), int(at)) for module, name, at in data.get("captures", ()))
        return cls(**{**data, "modules": tuple(data.get("modules", ())), "captures": captures})


#: Every process afresh, as nobody has wished otherwise.
COLD = Mode()


def wish(text: str) -> str:
    """One of WISHES. Raises UsageError for anything else."""
    if text not in WISHES:
        raise UsageError(f"launch: {text!r} is none of {', '.join(WISHES)}")
    return text
