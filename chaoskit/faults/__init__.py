"""Things that go wrong, one a file, and the registry that a stored schedule is read back with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaoskit import triggers
from chaoskit.errors import UsageError
from chaoskit.faults.bad_batch import bad_batch
from chaoskit.faults.bandwidth import bandwidth
from chaoskit.faults.bitflip import bitflip
from chaoskit.faults.corrupt import corrupt
from chaoskit.faults.damage_manifest import damage_manifest
from chaoskit.faults.damage_metadata import damage_metadata
from chaoskit.faults.dangling_pointer import dangling_pointer
from chaoskit.faults.delay import delay
from chaoskit.faults.delete import delete
from chaoskit.faults.disk_full import disk_full
from chaoskit.faults.empty import empty
from chaoskit.faults.exit import exit
from chaoskit.faults.fault import Action, Fault
from chaoskit.faults.flap import flap
from chaoskit.faults.flip import flip
from chaoskit.faults.forget_names import forget_names
from chaoskit.faults.grow import grow
from chaoskit.faults.hide import hide
from chaoskit.faults.inf import inf
from chaoskit.faults.io_error import io_error
from chaoskit.faults.kill import kill
from chaoskit.faults.kill_node import kill_node
from chaoskit.faults.late_names import late_names
from chaoskit.faults.loss import loss
from chaoskit.faults.lr_spike import lr_spike
from chaoskit.faults.nan import nan
from chaoskit.faults.noise import noise
from chaoskit.faults.noop import noop
from chaoskit.faults.one_way import one_way
from chaoskit.faults.overwrite import overwrite
from chaoskit.faults.partition import isolate, partition
from chaoskit.faults.pause import pause
from chaoskit.faults.pause_node import pause_node
from chaoskit.faults.quota import quota
from chaoskit.faults.raise_ import raise_
from chaoskit.faults.read_only import read_only
from chaoskit.faults.replace_node import replace_node
from chaoskit.faults.reset import reset
from chaoskit.faults.scale import scale
from chaoskit.faults.shrink import shrink
from chaoskit.faults.slow_storage import slow_storage
from chaoskit.faults.stale import stale
from chaoskit.faults.stale_pointer import stale_pointer
from chaoskit.faults.storage_gone import storage_gone
from chaoskit.faults.strip_checksums import strip_checksums
from chaoskit.faults.stuck import stuck
from chaoskit.faults.swap_older import swap_older
from chaoskit.faults.swap_rank import swap_rank
from chaoskit.faults.truncate import truncate
from chaoskit.faults.zero import zero
from chaoskit.faults.zero_fill import zero_fill
from chaoskit.places import Place

__all__ = [
    "REGISTRY",
    "Action",
    "Fault",
    "bad_batch",
    "bandwidth",
    "bitflip",
    "corrupt",
    "damage_manifest",
    "damage_metadata",
    "dangling_pointer",
    "delay",
    "delete",
    "disk_full",
    "empty",
    "exit",
    "flap",
    "flip",
    "forget_names",
    "from_json",
    "grow",
    "hide",
    "inf",
    "io_error",
    "isolate",
    "kill",
    "kill_node",
    "late_names",
    "loss",
    "lr_spike",
    "nan",
    "noise",
    "noop",
    "one_way",
    "overwrite",
    "partition",
    "pause",
    "pause_node",
    "quota",
    "raise_",
    "read_only",
    "replace_node",
    "reset",
    "scale",
    "shrink",
    "slow_storage",
    "stale",
    "stale_pointer",
    "storage_gone",
    "strip_checksums",
    "stuck",
    "swap_older",
    "swap_rank",
    "truncate",
    "zero",
    "zero_fill",
]

#: By the name that `Action.to_json` gives as `kind`: the function that makes the fault from the other fields.
REGISTRY: dict[str, Callable[..., Fault]] = {
    "kill": kill,
    "pause": pause,
    "exit": exit,
    "raise": raise_,
    "nan": nan,
    "inf": inf,
    "bitflip": bitflip,
    "scale": scale,
    "stuck": stuck,
    "zero": zero,
    "stale": stale,
    "noise": noise,
    "bad_batch": bad_batch,
    "lr_spike": lr_spike,
    "flip": flip,
    "overwrite": overwrite,
    "truncate": truncate,
    "zero_fill": zero_fill,
    "empty": empty,
    "delete": delete,
    "swap_older": swap_older,
    "swap_rank": swap_rank,
    "stale_pointer": stale_pointer,
    "dangling_pointer": dangling_pointer,
    "damage_manifest": damage_manifest,
    "damage_metadata": damage_metadata,
    "strip_checksums": strip_checksums,
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
    "disk_full": disk_full,
    "quota": quota,
    "io_error": io_error,
    "slow_storage": slow_storage,
    "read_only": read_only,
    "late_names": late_names,
    "storage_gone": storage_gone,
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
    if isinstance(fields.get("into"), Mapping):
        fields["into"] = Place.from_json(fields["into"])
    if fields.pop("launcher", False):
        fields = {"launcher": True, "signal": fields["signal"]}
    made = REGISTRY[kind](**fields)
    return Fault(made.action, triggers.from_json(data["trigger"]))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
