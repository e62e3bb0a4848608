"""Claims about a run, one a file, and the registry that a stored run is judged again with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaoskit.checks.check import Case, Check
from chaoskit.checks.checkpoints_faithful import checkpoints_faithful
from chaoskit.checks.completed import completed
from chaoskit.checks.controls_agree import controls_agree
from chaoskit.checks.detected_within import detected_within
from chaoskit.checks.disk_use_bounded import disk_use_bounded
from chaoskit.checks.durable_once_published import durable_once_published
from chaoskit.checks.falls_back_to_last_valid import falls_back_to_last_valid
from chaoskit.checks.faults_took_effect import faults_took_effect
from chaoskit.checks.global_batch_kept import global_batch_kept
from chaoskit.checks.judge import judge
from chaoskit.checks.log_right import log_right
from chaoskit.checks.lr_schedule_kept import lr_schedule_kept
from chaoskit.checks.matches_reference import matches_reference
from chaoskit.checks.no_checkpoint_lost import no_checkpoint_lost
from chaoskit.checks.no_debris import no_debris
from chaoskit.checks.no_orphans import no_orphans
from chaoskit.checks.no_poisoned_checkpoint import no_poisoned_checkpoint
from chaoskit.checks.not_spread import not_spread
from chaoskit.checks.recovered_within import recovered_within
from chaoskit.checks.replicas_agree import replicas_agree
from chaoskit.checks.resumed_from_last_valid import resumed_from_last_valid
from chaoskit.checks.returned_to_reference import returned_to_reference
from chaoskit.checks.ridden_out import ridden_out
from chaoskit.checks.rolled_back_cleanly import rolled_back_cleanly
from chaoskit.checks.same_data import same_data
from chaoskit.checks.samples_exactly_once import samples_exactly_once
from chaoskit.checks.state_restored import state_restored
from chaoskit.checks.stays_finite import stays_finite
from chaoskit.errors import UsageError

__all__ = [
    "REGISTRY",
    "Case",
    "Check",
    "checkpoints_faithful",
    "completed",
    "controls_agree",
    "detected_within",
    "disk_use_bounded",
    "durable_once_published",
    "falls_back_to_last_valid",
    "faults_took_effect",
    "from_json",
    "global_batch_kept",
    "judge",
    "log_right",
    "lr_schedule_kept",
    "matches_reference",
    "no_checkpoint_lost",
    "no_debris",
    "no_orphans",
    "no_poisoned_checkpoint",
    "not_spread",
    "recovered_within",
    "replicas_agree",
    "resumed_from_last_valid",
    "returned_to_reference",
    "ridden_out",
    "rolled_back_cleanly",
    "same_data",
    "samples_exactly_once",
    "state_restored",
    "stays_finite",
]

#: By the name that `Check.to_json` gives: the function that makes the check from the other fields.
REGISTRY: dict[str, Callable[..., Check]] = {
    "checkpoints_faithful": checkpoints_faithful,
    "completed": completed,
    "controls_agree": controls_agree,
    "detected_within": detected_within,
    "durable_once_published": durable_once_published,
    "disk_use_bounded": disk_use_bounded,
    "falls_back_to_last_valid": falls_back_to_last_valid,
    "faults_took_effect": faults_took_effect,
    "global_batch_kept": global_batch_kept,
    "log_right": log_right,
    "lr_schedule_kept": lr_schedule_kept,
    "matches_reference": matches_reference,
    "no_checkpoint_lost": no_checkpoint_lost,
    "no_debris": no_debris,
    "no_orphans": no_orphans,
    "no_poisoned_checkpoint": no_poisoned_checkpoint,
    "not_spread": not_spread,
    "recovered_within": recovered_within,
    "replicas_agree": replicas_agree,
    "resumed_from_last_valid": resumed_from_last_valid,
    "returned_to_reference": returned_to_reference,
    "ridden_out": ridden_out,
    "rolled_back_cleanly": rolled_back_cleanly,
    "same_data": same_data,
    "samples_exactly_once": samples_exactly_once,
    "state_restored": state_restored,
    "stays_finite": stays_finite,
}


def from_json(data: Mapping[str, Any]) -> Check:
    """The check that `to_json` described; raises UsageError for one that does not exist."""
    fields = dict(data)
    name = fields.pop("name", None)
    if name not in REGISTRY:
        raise UsageError(f"there is no check {name!r}; there are {', '.join(REGISTRY)}")
    return REGISTRY[name](**fields)
