"""`ROWS`: the readiness checklist. To add a row, add it here; the reference page is made of it."""

from __future__ import annotations

from chaoskit.studies.certificate.row import Need, Row

_BACK = ("completed", "resumed_from_last_valid")
_RESUMES = (
    "test_resume.py::test_resume",
    "test_node_termination.py::test_one_rank_mid_epoch",
    "test_node_termination.py::test_all_ranks",
    "test_node_termination.py::test_twice",
    "test_checkpoints.py::test_epoch_boundary",
)
_BATTERY = "run the whole battery: chaoskit certify -- COMMAND"
_NODES = "run the job on two nodes: chaoskit certify --env netns --nodes 2 -- COMMAND"
_STATE = (Need(_RESUMES, ("state_restored",)),)

ROWS: tuple[Row, ...] = (
    Row(
        "resume-model",
        "Resumes exactly: model",
        "After a resume the parameters and buffers of every rank are those of the step from which the job resumed.",
        _BATTERY,
        _STATE,
        ("model-not-restored", "buffers-not-restored"),
        ("model", "buffers"),
        required=True,
    ),
    Row(
        "resume-optimizer",
        "Resumes exactly: optimizer",
        "After a resume the optimizer's state and the options of its parameter groups are those of that step.",
        _BATTERY,
        _STATE,
        ("optimizer-not-restored", "options-not-restored"),
        ("optimizer", "options"),
        required=True,
    ),
    Row(
        "resume-schedule",
        "Resumes exactly: learning rate",
        "After a resume the learning rate is that of its step, now and later.",
        _BATTERY,
        _STATE,
        ("lr-schedule-off",),
        ("lr",),
        required=True,
    ),
    Row(
        "resume-scaler",
        "Resumes exactly: gradient scaler",
        "After a resume the gradient scaler is that of that step.",
        _BATTERY,
        _STATE,
        ("scaler-not-restored",),
        ("scaler",),
    ),
    Row(
        "resume-average",
        "Resumes exactly: averaged weights",
        "After a resume the averaged copy of the model is that of that step.",
        _BATTERY,
        _STATE,
        ("ema-not-restored",),
        ("ema",),
    ),
    Row(
        "data-position",
        "Data position",
        "Over all restarts the job consumes every sample as often as without a fault, and in the same order.",
        _BATTERY,
        (*_STATE, Need(_RESUMES, ("same_data",))),
        ("data-replayed", "data-skipped", "data-reordered", "data-differs", "global-batch-changed"),
        ("batch",),
        required=True,
    ),
    Row(
        "random-streams",
        "Random streams",
        "After a resume every random stream of every rank continues where it was.",
        _BATTERY,
        _STATE,
        ("rng-not-restored", "rng-unused-not-restored"),
        ("rng",),
        required=True,
    ),
    Row(
        "resume-losses",
        "Trains on as if nothing had happened",
        (
            "Every loss after a resume equals that of an uninterrupted run, to the bit, or within the spread "
            "of a job that is not deterministic."
        ),
        _BATTERY,
        (Need((*_RESUMES, "test_control.py::test_control"), ("matches_reference", "completed")),),
    ),
    Row(
        "replicas",
        "Replicas agree",
        "After a resume the replicas of the model on different ranks are equal at every step.",
        _BATTERY,
        (Need(("test_replica_divergence.py::test_replicas_agree",), ("completed", "replicas_agree")),),
    ),
    Row(
        "last-valid",
        "Resumes from the last valid checkpoint",
        "After a fault the job resumes by itself from the newest checkpoint whose save had settled.",
        _BATTERY,
        (
            Need(
                (
                    "test_node_termination.py::test_all_ranks",
                    "test_node_termination.py::test_launcher",
                    "test_node_termination.py::test_right_after_save",
                    "test_checkpoints.py::test_late",
                    "test_checkpoints.py::test_hidden_checkpoints",
                ),
                _BACK,
            ),
        ),
        figures=("steps_lost", "recovery_seconds"),
    ),
    Row(
        "atomic",
        "Checkpoints are atomic",
        "A save that is cut short is never taken for a checkpoint, and harms no older one.",
        _BATTERY,
        (
            Need(
                (
                    "test_node_termination.py::test_middle_of_save",
                    "test_checkpoints.py::test_between_writes",
                    "test_checkpoints.py::test_write_error",
                ),
                (*_BACK, "checkpoints_faithful"),
            ),
            Need(("test_debris.py::test_interrupted_saves",), (*_BACK, "no_checkpoint_lost")),
        ),
    ),
    Row(
        "durable",
        "Checkpoints survive power loss",
        "A power cut loses no settled save: files and directories are forced to disk.",
        "chaoskit certify -- COMMAND where file systems of chaoskit can be mounted ('chaoskit doctor' says so)",
        (Need(("test_storage_faults.py::test_durable",), ("durable_once_published", "completed")),),
        measure="crash-states",
    ),
    Row(
        "corruption-refused",
        "Damage is refused",
        "The job refuses a damaged checkpoint, and resumes from the newest whole one by itself.",
        _BATTERY,
        (
            Need(
                (
                    "test_checkpoint_corruption.py::test_damaged[overwrite-truncate-zero_fill]",
                    "test_checkpoint_corruption.py::test_damaged[empty-delete]",
                    "test_checkpoint_corruption.py::test_misleading[swap_older]",
                    "test_checkpoint_corruption.py::test_misleading[damage_manifest]",
                    "test_checkpoint_corruption.py::test_misleading[strip_checksums]",
                    "test_checkpoint_corruption.py::test_pointer",
                    "test_checkpoint_corruption.py::test_none_is_whole[truncate]",
                ),
                ("falls_back_to_last_valid", "completed"),
            ),
            Need(("test_checkpoints.py::test_flipped_bit",), _BACK),
        ),
    ),
    Row(
        "sharded",
        "Saves of several ranks",
        "A save to which several ranks contribute counts only once all parts are written.",
        _BATTERY,
        (Need(("test_checkpoints.py::test_last_writer",), (*_BACK, "checkpoints_faithful")),),
    ),
    Row(
        "retention",
        "Retention keeps the last valid",
        "Removing old checkpoints never removes the last valid one, and leftovers do not fill the disk.",
        _BATTERY,
        (
            Need(
                ("test_checkpoint_corruption.py::test_retention_after_damage",),
                ("no_checkpoint_lost", "completed"),
            ),
            Need(
                ("test_debris.py::test_interrupted_saves",),
                ("no_checkpoint_lost", "no_debris", "disk_use_bounded"),
            ),
        ),
    ),
    Row(
        "disaster",
        "Replica and disaster drill",
        "All checkpoints of the first store are gone, and the job comes back from its second store.",
        "let the job copy its checkpoints to a second directory below {out}, and restore from it",
        (Need(("test_storage_faults.py::test_first_store_lost",), _BACK),),
        measure="replica",
        figures=("steps_lost", "recovery_seconds"),
    ),
    Row(
        "node-termination",
        "Node termination",
        "A node is lost without a word; the job gets another one and resumes.",
        _NODES,
        (
            Need(
                (
                    "test_node_loss.py::test_worker_node",
                    "test_node_loss.py::test_rendezvous_node",
                    "test_node_loss.py::test_hot_spare",
                    "test_node_loss.py::test_replaced",
                ),
                _BACK,
            ),
        ),
        figures=("steps_lost", "recovery_seconds"),
    ),
    Row(
        "network-partition",
        "Network partition",
        "The job waits out a short partition, and recovers by itself from a long one.",
        f"{_NODES}, with a timeout of its collectives of at most 60 s",
        (
            Need(
                (
                    "test_network_partition.py::test_longer_than_the_timeout",
                    "test_network_partition.py::test_one_way",
                    "test_network_partition.py::test_connections_reset",
                    "test_network_partition.py::test_during_a_save",
                    "test_network_partition.py::test_during_rendezvous",
                    "test_network_partition.py::test_rendezvous_host",
                ),
                _BACK,
            ),
            Need(
                (
                    "test_network_partition.py::test_shorter_than_the_timeout",
                    "test_network_partition.py::test_flapping",
                ),
                ("completed", "ridden_out"),
            ),
        ),
        figures=("recovery_seconds",),
    ),
    Row(
        "storage-full",
        "Storage full",
        "The disk is full in the middle of a save; no valid checkpoint is lost.",
        "chaoskit certify -- COMMAND where file systems of chaoskit can be mounted ('chaoskit doctor' says so)",
        (Need(("test_storage_faults.py::test_disk_full",), (*_BACK, "no_checkpoint_lost")),),
    ),
    Row(
        "storage-slow",
        "Storage slow",
        "A slow save ends no healthy job.",
        "chaoskit certify -- COMMAND where file systems of chaoskit can be mounted ('chaoskit doctor' says so)",
        (Need(("test_storage_faults.py::test_slow_storage",), (*_BACK, "ridden_out")),),
    ),
    Row(
        "storage-gone",
        "Storage gone",
        "The job waits out storage that does not answer for a while, or fails once.",
        "chaoskit certify -- COMMAND where file systems of chaoskit can be mounted ('chaoskit doctor' says so)",
        (
            Need(
                (
                    "test_storage_faults.py::test_storage_gone",
                    "test_storage_faults.py::test_transient_error",
                ),
                (*_BACK, "ridden_out"),
            ),
        ),
    ),
    Row(
        "nan-guard",
        "NaN guard",
        "A loss that is not a number is noticed at its step, is not saved, and the job recovers.",
        _BATTERY,
        (
            Need(
                ("test_nan.py::test_not_a_number",),
                ("completed", "detected_within", "no_poisoned_checkpoint", "rolled_back_cleanly"),
            ),
        ),
    ),
    Row(
        "silent-corruption",
        "Silent corruption noticed",
        "At most the given share of wrong numbers changes the training without a word.",
        "measure the share with 'chaoskit sdc-map -- COMMAND', then make the certificate again",
        measure="silent",
    ),
    Row(
        "preemption",
        "Preemption notice and emergency save",
        "After a notice the job saves in time on every rank, leaves, and resumes from that save.",
        "name the notices that the job handles: chaoskit certify --notices aws -- COMMAND",
        (
            Need(
                ("test_preemption.py::test_preempted[*]", "test_preemption.py::test_told_again[*]"),
                ("completed", "emergency_checkpoint", "stopped_cleanly"),
            ),
        ),
        figures=("saved_seconds",),
    ),
    Row(
        "elastic",
        "Elastic shrink and grow",
        "The job goes on with fewer nodes and with more again, with each sample once and the same global batch.",
        "run the job on a range of nodes: chaoskit certify --env netns --nodes 1:2 -- COMMAND",
        (
            Need(
                ("test_elastic.py::test_shrink", "test_elastic.py::test_shrink_and_grow"),
                (
                    "completed",
                    "resumed_from_last_valid",
                    "state_restored",
                    "samples_exactly_once",
                    "global_batch_kept",
                    "lr_schedule_kept",
                ),
            ),
        ),
        only_if="elastic",
    ),
    Row(
        "hang",
        "Hang detected",
        "If ranks no longer reach each other the job ends by itself, and recovers.",
        f"{_NODES}, with a timeout of its collectives of at most 60 s",
        (
            Need(
                (
                    "test_network_partition.py::test_longer_than_the_timeout",
                    "test_network_partition.py::test_one_way",
                ),
                ("completed",),
            ),
        ),
        figures=("noticed_seconds", "stopped_seconds"),
        figure_needed="noticed_seconds",
    ),
    Row(
        "straggler",
        "Straggler detected",
        "The job says within 30 s that a rank has become slow.",
        "chaoskit certify -- COMMAND where chaoskit may make control groups ('chaoskit doctor' says so)",
        (Need(("test_resources.py::test_straggler_noticed",), ("completed", "straggler_noticed")),),
    ),
    Row(
        "interval",
        "Checkpoint interval near the optimum",
        "The time between checkpoints is within a factor of two of Young's optimum.",
        "say how often the production job fails and saves: --mtbf-hours 12 --interval-seconds 1800",
        measure="interval",
    ),
    Row(
        "restart-budget",
        "Restart budget",
        "The job recovers from failures one after the other before its restarts are used up.",
        f"{_NODES}, or let a schedule strike: --every 30m --during 6h",
        (
            Need(("test_node_termination.py::test_twice",), ("completed",)),
            Need(
                (
                    "test_node_loss.py::test_every_so_often",
                    "test_schedule.py::test_killed_again_and_again",
                    "test_stale_rendezvous.py::test_a_subset_again_and_again",
                ),
                ("completed",),
                least=1,
            ),
        ),
    ),
    Row(
        "orphans",
        "Nothing is left behind",
        "No process of the job outlives its launcher.",
        _BATTERY,
        (
            Need(
                ("test_node_termination.py::test_one_rank_mid_epoch", "test_node_termination.py::test_all_ranks"),
                ("no_orphans",),
            ),
        ),
    ),
    Row(
        "formats",
        "Checkpoints run no code",
        (
            "A resume unpickles nothing but tensors and plain values, so nobody who can write a checkpoint can"
            " run code in the job."
        ),
        "load with torch.load(weights_only=True) or safetensors: chaoskit sees no other loads",
        measure="formats",
    ),
    Row(
        "rules",
        "Monitoring rules fire",
        "Each rule of the team's monitoring fires at the fault that it is for.",
        "this chaoskit does not run monitoring rules",
        measure="rules",
    ),
    Row(
        "rest",
        "Nothing else was found",
        "The battery found nothing that no other row names.",
        _BATTERY,
        measure="rest",
    ),
)

#: Experiments that run only on request, and that rows need.
ALSO: tuple[str, ...] = (
    "test_durable",
    "test_first_store_lost",
    "test_slow_storage",
    "test_straggler_noticed",
)
