"""`unrested`: a verdict that rests on what the probe failed to read is inconclusive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.probe_errors import EVERYTHING
from chaoskit.errors import FAMILIES
from chaoskit.verdict import Outcome, Verdict, inconclusive

_STATE = ("model", "buffers", "optimizer", "options", "lr", "scaler", "ema", "rng", "parts")
#: What a pass of each check rests on, besides that steps were seen at all. An error about `rows` touches no pass: they
#: only name what differs.
_RESTS_ON: Mapping[str, frozenset[str]] = {
    name: frozenset(parts)
    for name, parts in {
        "matches_reference": (*_STATE, "batch", "loss", "nonfinite"),
        "returned_to_reference": (*_STATE, "batch", "loss", "nonfinite"),
        "state_restored": (*_STATE, "batch"),
        "same_data": ("batch",),
        "samples_exactly_once": ("batch",),
        "global_batch_kept": ("batch",),
        "lr_schedule_kept": ("lr",),
        "log_right": ("loss",),
        "stays_finite": ("loss", "nonfinite"),
        "replicas_agree": ("model", "buffers", "optimizer", "replicas"),
        "rolled_back_cleanly": (*_STATE, "batch", "loss"),
        "controls_agree": (*_STATE, "batch", "loss"),
        "resumed_from_last_valid": ("model", "optimizer", "saves"),
        "falls_back_to_last_valid": ("model", "optimizer", "saves"),
        "no_checkpoint_lost": ("saves",),
        "checkpoints_faithful": ("saves", "model", "optimizer"),
        "durable_once_published": ("saves",),
        "no_poisoned_checkpoint": ("saves",),
    }.items()
}
#: What a code of a fail rests on, where its name does not tell.
_CODES: Mapping[str, tuple[str, ...]] = {
    "lr-schedule-off": ("lr",),
    "global-batch-changed": ("batch",),
    "loss-diverged": ("loss",),
    "nonfinite-accepted": ("loss", "nonfinite"),
    "ranks-diverged": ("model", "replicas"),
    "checkpoint-unfaithful": ("saves",),
    "poisoned-checkpoint": ("saves",),
    "stale-checkpoint": ("saves",),
    "checkpoint-lost": ("saves",),
    "checkpoint-not-durable": ("saves",),
}


def unrested(case: Case, verdict: Verdict) -> Verdict:
    """The verdict itself, or an inconclusive one where the probe had an error in something that it rests on: a pass in
    anything that it compared, a fail in all that its codes tell of."""
    touched = {part: error for error in reversed(case.probe_errors) for part in error.touches}
    if not touched or verdict.outcome is Outcome.INCONCLUSIVE:
        return verdict
    if verdict.outcome is Outcome.PASS:
        spoilt = _spoilt(_RESTS_ON.get(verdict.check, frozenset()), touched)
        shaken = bool(spoilt)
    else:
        each = [_spoilt(_parts_of(code), touched) for code in verdict.codes]
        spoilt = [part for parts in each for part in parts]
        shaken = all(each)
    if not shaken:
        return verdict
    sentence = (
        f"the probe had an error where it reads the {spoilt[0]} ({touched[spoilt[0]]}), so there is no verdict; please "
        f"report this. Otherwise: {verdict.sentence}"
    )
    return inconclusive(verdict.check, sentence, "probe-blind", original=verdict.to_json())


def _spoilt(parts: Iterable[str], touched: Mapping[str, object]) -> list[str]:
    return [part for part in sorted({*parts, EVERYTHING}) if part in touched] if parts else []


def _parts_of(code: str) -> tuple[str, ...]:
    """The parts of the record that a code tells of; none for a code that rests on other things, such as an exit."""
    if code in _CODES:
        return _CODES[code]
    if FAMILIES[code] == "data":
        return ("batch", "rows")
    name = code.removesuffix("-not-restored")
    if name == "rng":
        return ("rng", "batch")
    return (name,) if name in _STATE else ()
