# Written by `make tables`: do not edit.
from chaoskit.faults.checkpoint.damage_manifest import damage_manifest
from chaoskit.faults.checkpoint.damage_metadata import damage_metadata
from chaoskit.faults.checkpoint.dangling_pointer import dangling_pointer
from chaoskit.faults.checkpoint.delete import delete
from chaoskit.faults.checkpoint.empty import empty
from chaoskit.faults.checkpoint.file_bitflip import file_bitflip
from chaoskit.faults.checkpoint.hide import hide
from chaoskit.faults.checkpoint.overwrite import overwrite
from chaoskit.faults.checkpoint.stale_pointer import stale_pointer
from chaoskit.faults.checkpoint.strip_checksums import strip_checksums
from chaoskit.faults.checkpoint.swap_older import swap_older
from chaoskit.faults.checkpoint.swap_rank import swap_rank
from chaoskit.faults.checkpoint.truncate import truncate
from chaoskit.faults.checkpoint.zero_fill import zero_fill
from chaoskit.faults.control.noop import noop
from chaoskit.faults.fault import Action, Fault
from chaoskit.faults.network.bandwidth import bandwidth
from chaoskit.faults.network.delay import delay
from chaoskit.faults.network.flap import flap
from chaoskit.faults.network.forget_names import forget_names
from chaoskit.faults.network.one_way import one_way
from chaoskit.faults.network.packet_corruption import packet_corruption
from chaoskit.faults.network.packet_loss import packet_loss
from chaoskit.faults.network.partition import isolate, partition
from chaoskit.faults.network.reset import reset
from chaoskit.faults.node.add_node import add_node
from chaoskit.faults.node.drain_node import drain_node
from chaoskit.faults.node.evict_node import evict_node
from chaoskit.faults.node.kill_node import kill_node
from chaoskit.faults.node.out_of_memory import out_of_memory
from chaoskit.faults.node.pause_node import pause_node
from chaoskit.faults.node.preempt import preempt
from chaoskit.faults.node.remove_node import remove_node
from chaoskit.faults.node.replace_node import replace_node
from chaoskit.faults.node.skew_clock import skew_clock
from chaoskit.faults.node.suspend import suspend
from chaoskit.faults.node.throttle import throttle
from chaoskit.faults.node.time_limit import time_limit
from chaoskit.faults.numeric.bad_batch import bad_batch
from chaoskit.faults.numeric.bitflip import bitflip
from chaoskit.faults.numeric.inf import inf
from chaoskit.faults.numeric.lr_spike import lr_spike
from chaoskit.faults.numeric.nan import nan
from chaoskit.faults.numeric.noise import noise
from chaoskit.faults.numeric.scale import scale
from chaoskit.faults.numeric.stale import stale
from chaoskit.faults.numeric.stuck import stuck
from chaoskit.faults.numeric.zero import zero
from chaoskit.faults.process.exit import exit
from chaoskit.faults.process.kill import kill
from chaoskit.faults.process.pause import pause
from chaoskit.faults.process.raise_ import raise_
from chaoskit.faults.registry import REGISTRY, from_json
from chaoskit.faults.storage.disk_full import disk_full
from chaoskit.faults.storage.io_error import io_error
from chaoskit.faults.storage.late_names import late_names
from chaoskit.faults.storage.quota import quota
from chaoskit.faults.storage.read_only import read_only
from chaoskit.faults.storage.slow_disk import slow_disk
from chaoskit.faults.storage.slow_storage import slow_storage
from chaoskit.faults.storage.storage_gone import storage_gone

__all__ = [
    "REGISTRY",
    "Action",
    "Fault",
    "add_node",
    "bad_batch",
    "bandwidth",
    "bitflip",
    "damage_manifest",
    "damage_metadata",
    "dangling_pointer",
    "delay",
    "delete",
    "disk_full",
    "drain_node",
    "empty",
    "evict_node",
    "exit",
    "file_bitflip",
    "flap",
    "forget_names",
    "from_json",
    "hide",
    "inf",
    "io_error",
    "isolate",
    "kill",
    "kill_node",
    "late_names",
    "lr_spike",
    "nan",
    "noise",
    "noop",
    "one_way",
    "out_of_memory",
    "overwrite",
    "packet_corruption",
    "packet_loss",
    "partition",
    "pause",
    "pause_node",
    "preempt",
    "quota",
    "raise_",
    "read_only",
    "remove_node",
    "replace_node",
    "reset",
    "scale",
    "skew_clock",
    "slow_disk",
    "slow_storage",
    "stale",
    "stale_pointer",
    "storage_gone",
    "strip_checksums",
    "stuck",
    "suspend",
    "swap_older",
    "swap_rank",
    "throttle",
    "time_limit",
    "truncate",
    "zero",
    "zero_fill",
]
