"""Things that go wrong, one a file, and the registry that a stored schedule is read back with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaoskit import triggers
from chaoskit.errors import UsageError
from chaoskit.faults.exit import exit
from chaoskit.faults.fault import Action, Fault
from chaoskit.faults.flip import flip
from chaoskit.faults.hide import hide
from chaoskit.faults.kill import kill
from chaoskit.faults.nan import nan
from chaoskit.faults.noop import noop
from chaoskit.faults.pause import pause
from chaoskit.faults.raise_ import raise_

__all__ = [
    "REGISTRY",
    "Action",
    "Fault",
    "exit",
    "flip",
    "from_json",
    "hide",
    "kill",
    "nan",
    "noop",
    "pause",
    "raise_",
]

#: By the name that `Action.to_json` gives as `kind`: the function that makes the fault from the other fields.
REGISTRY: dict[str, Callable[..., Fault]] = {
    "kill": kill,
    "pause": pause,
    "exit": exit,
    "raise": raise_,
    "nan": nan,
    "flip": flip,
    "hide": hide,
    "noop": noop,
}


def from_json(data: Mapping[str, Any]) -> Fault:
    """The fault that `Fault.to_json` described; raises UsageError for a kind that does not exist."""
    fields = dict(data["action"])
    kind = fields.pop("kind", None)
    if kind not in REGISTRY:
        raise UsageError(f"there is no fault {kind!r}; there are {', '.join(REGISTRY)}")
    if isinstance(fields.get("rank"), list):
        fields["rank"] = tuple(fields["rank"])
    if fields.pop("launcher", False):
        fields = {"launcher": True, "signal": fields["signal"]}
    made = REGISTRY[kind](**fields)
    return Fault(made.action, triggers.from_json(data["trigger"]))
