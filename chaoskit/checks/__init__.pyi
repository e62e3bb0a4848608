# Written by `make tables`: do not edit.
from chaoskit.analysis.case import Case
from chaoskit.checks.check import Check
from chaoskit.checks.checkpoints_faithful import checkpoints_faithful
from chaoskit.checks.completed import completed
from chaoskit.checks.controls_agree import controls_agree
from chaoskit.checks.detected_within import detected_within
from chaoskit.checks.disk_use_bounded import disk_use_bounded
from chaoskit.checks.durable_once_published import durable_once_published
from chaoskit.checks.emergency_checkpoint import emergency_checkpoint
from chaoskit.checks.falls_back_to_last_valid import falls_back_to_last_valid
from chaoskit.checks.false_notice_ridden_out import false_notice_ridden_out
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
from chaoskit.checks.recoveries_exact import recoveries_exact
from chaoskit.checks.registry import REGISTRY, from_json
from chaoskit.checks.replicas_agree import replicas_agree
from chaoskit.checks.resumed_from_last_valid import resumed_from_last_valid
from chaoskit.checks.returned_to_reference import returned_to_reference
from chaoskit.checks.ridden_out import ridden_out
from chaoskit.checks.rolled_back_cleanly import rolled_back_cleanly
from chaoskit.checks.same_data import same_data
from chaoskit.checks.samples_exactly_once import samples_exactly_once
from chaoskit.checks.saved_within_grace import saved_within_grace
from chaoskit.checks.state_restored import state_restored
from chaoskit.checks.stays_finite import stays_finite
from chaoskit.checks.stopped_cleanly import stopped_cleanly
from chaoskit.checks.straggler_noticed import straggler_noticed

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
    "emergency_checkpoint",
    "falls_back_to_last_valid",
    "false_notice_ridden_out",
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
    "recoveries_exact",
    "replicas_agree",
    "resumed_from_last_valid",
    "returned_to_reference",
    "ridden_out",
    "rolled_back_cleanly",
    "same_data",
    "samples_exactly_once",
    "saved_within_grace",
    "state_restored",
    "stays_finite",
    "stopped_cleanly",
    "straggler_noticed",
]
