"""`WINDOWED`: the checks that may judge a run which was watched in a window, and what their verdicts say of that.

Their claims are about the state, the data and the checkpoints around a fault, and about steps that follow from the
reference once the job equals it again. Claims about something that adds up over a whole training (files on the disk,
the job's log, a pace) need a whole run.
"""

from __future__ import annotations

from dataclasses import replace

from chaoskit.analysis.case import Case
from chaoskit.verdict import Outcome, Verdict, inconclusive

WINDOWED = frozenset(
    {
        "checkpoints_faithful", "completed", "controls_agree", "detected_within", "emergency_checkpoint",
        "falls_back_to_last_valid", "false_notice_ridden_out", "faults_took_effect", "global_batch_kept",
        "lr_schedule_kept", "matches_reference", "no_checkpoint_lost", "no_orphans", "no_poisoned_checkpoint",
        "not_spread", "recovered_within", "recoveries_exact", "replicas_agree", "resumed_from_last_valid",
        "returned_to_reference", "ridden_out", "rolled_back_cleanly", "same_data", "samples_exactly_once",
        "saved_within_grace", "state_restored", "stays_finite", "stopped_cleanly",
    }
)  # fmt: skip


def named(case: Case, verdict: Verdict) -> Verdict:
    """The verdict with the steps that were watched in its sentence and its evidence, if the run was one in a window; a
    pass of a check that needs a whole run is none."""
    window = case.history.window
    if window is None or case.watched is None:
        return verdict
    watched = case.watched
    said = f"watched: steps {watched.first:,} to {watched.last:,} of {window.of:,}"
    if verdict.check not in WINDOWED and verdict.outcome is Outcome.PASS:
        sentence = f"this check needs the whole run ({said}). Otherwise: {verdict.sentence}"
        return inconclusive(verdict.check, sentence, "probe-blind", original=verdict.to_json())
    evidence = {**verdict.evidence, "window": {"first": watched.first, "last": watched.last, "of": window.of}}
    return replace(verdict, sentence=f"{verdict.sentence} ({said})", evidence=evidence)
