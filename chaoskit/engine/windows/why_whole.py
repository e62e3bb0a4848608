"""`why_whole`: says why an experiment cannot be run in a window, before anything is launched for it."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit import environments
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import STEPS
from chaoskit.environments.traits import StorageKind
from chaoskit.faults import Fault
from chaoskit.faults.triggers import AtSave, AtStep, BetweenWrites, Every
from chaoskit.job import Job


def why_whole(
    job: Job, faults: Sequence[Fault], reference: Reference, *, environment: str, storage: StorageKind = ""
) -> str:
    """The reason; empty if the experiment may be run in a window. The triggers of the faults have been resolved.
    `storage` is what the experiment itself asks for: the record of all that the job writes."""
    traits = environments.environment(environment).traits
    if not traits.is_here:
        return f"the environment {environment!r} has other machines or other files than chaoskit"
    if not reference.deterministic:
        return "the job is not deterministic"
    if not reference.saves_by_step:
        return "the job does not save at the same steps each time"
    if job.relaunch_command:
        return "the job is relaunched by another command"
    if job.log_regex:
        return "the job's log is judged, too"
    if job.nodes.least != job.nodes.most:
        return "the job runs on a range of nodes"
    if storage:
        return "the writes of the job are recorded from the first step on"
    if any(isinstance(fault.trigger, Every) for fault in faults):
        return "a schedule strikes until the training ends"
    return ""


def _first_step(faults: Sequence[Fault]) -> int | None:
    """The step before which the first fault does nothing; None if that is not known."""
    trigger = faults[0].trigger
    if isinstance(trigger, AtStep):
        return trigger.step
    if isinstance(trigger, AtSave | BetweenWrites) and trigger.position is not None:
        return trigger.position
    return None


def begin_before(faults: Sequence[Fault], reference: Reference) -> int | None:
    """The step before which a window must begin: that of the first fault, None if it is not known. Without a fault: a
    step that is followed by a save and some more steps."""
    return _first_step(faults) if faults else min(reference.steps - STEPS, reference.saves[-1])
