"""Which kinds of job a team may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.environments.kubernetes.team_jobs.indexed_job import IndexedJob
from chaoskit.environments.kubernetes.team_jobs.job_set import JobSet
from chaoskit.environments.kubernetes.team_jobs.pytorch_job import PyTorchJob
from chaoskit.environments.kubernetes.team_jobs.team_job import TeamJob
from chaoskit.environments.kubernetes.team_jobs.train_job import TrainJob

KINDS: tuple[type[IndexedJob] | type[JobSet] | type[PyTorchJob] | type[TrainJob], ...] = (
    IndexedJob,
    JobSet,
    PyTorchJob,
    TrainJob,
)
SUPPORTED = "chaoskit runs " + ", ".join(f"{kind.api.kind} of {kind.api.api_version}" for kind in KINDS)


def team_job(manifest: Mapping[str, Any]) -> TeamJob | None:
    """The job of a manifest, None for an object of another kind."""
    named = (manifest.get("apiVersion"), manifest.get("kind"))
    return next((kind(manifest) for kind in KINDS if (kind.api.api_version, kind.api.kind) == named), None)


def accepted_job(manifest: Mapping[str, Any]) -> TeamJob:
    """The job of a manifest that was not refused."""
    found = team_job(manifest)
    assert found is not None, "it has been refused"
    return found
