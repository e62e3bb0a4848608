"""Things that go wrong, one a file, and the registry that a stored schedule is read back with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaoskit import triggers
from chaoskit.errors import UsageError
from chaoskit.faults.bandwidth import bandwidth
from chaoskit.faults.corrupt import corrupt
from chaoskit.faults.delay import delay
from chaoskit.faults.exit import exit
from chaoskit.faults.fault import Action, Fault
from chaoskit.faults.flap import flap
from chaoskit.faults.flip import flip
from chaoskit.faults.forget_names import forget_names
from chaoskit.faults.grow import grow
from chaoskit.faults.hide import hide
from chaoskit.faults.kill import kill
from chaoskit.faults.kill_node import kill_node
from chaoskit.faults.loss import loss
from chaoskit.faults.nan import nan
from chaoskit.faults.noop import noop
from chaoskit.faults.one_way import one_way
from chaoskit.faults.partition import isolate, partition
from chaoskit.faults.pause import pause
from chaoskit.faults.pause_node import pause_node
from chaoskit.faults.raise_ import raise_
from chaoskit.faults.replace_node import replace_node
from chaoskit.faults.reset import reset
from chaoskit.faults.shrink import shrink

__all__ = [
    "REGISTRY",
    "Action",
    "Fault",
    "bandwidth",
    "corrupt",
    "delay",
    "exit",
    "flap",
    "flip",
    "forget_names",
    "from_json",
    "grow",
    "hide",
    "isolate",
    "kill",
    "kill_node",
    "loss",
    "nan",
    "noop",
    "one_way",
    "partition",
    "pause",
    "pause_node",
    "raise_",
    "replace_node",
    "reset",
    "shrink",
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
    "partition": partition,
    "isolate": isolate,
    "one_way": one_way,
    "flap": flap,
    "reset": reset,
    "loss": loss,
    "delay": delay,
    "bandwidth": bandwidth,
    "corrupt": corrupt,
    "forget_names": forget_names,
    "kill_node": kill_node,
    "pause_node": pause_node,
    "replace_node": replace_node,
    "grow": grow,
    "shrink": shrink,
    "noop": noop,
}


def from_json(data: Mapping[str, Any]) -> Fault:
    """The fault that `Fault.to_json` described; raises UsageError for a kind that does not exist."""
    fields = dict(data["action"])
    kind = fields.pop("kind", None)
    if kind not in REGISTRY:
        raise UsageError(f"there is no fault {kind!r}; there are {', '.join(REGISTRY)}")
    fields = {name: _tuples(value) for name, value in fields.items()}
    if fields.pop("launcher", False):
        fields = {"launcher": True, "signal": fields["signal"]}
    made = REGISTRY[kind](**fields)
    return Fault(made.action, triggers.from_json(data["trigger"]))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
