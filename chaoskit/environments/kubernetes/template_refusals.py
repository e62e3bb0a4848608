"""Why a manifest cannot be run as the job template of a team. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chaoskit.environments.kubernetes.team_jobs.kinds import SUPPORTED, team_job
from chaoskit.environments.kubernetes.team_jobs.pod_shape import missing_mapping, refused_pods

#: The beginning of the labels of chaoskit.
RESERVED = "chaoskit.dev/"


def refusals(manifest: Any) -> Iterator[str]:
    """Why a manifest cannot be run, the first reason first."""
    if not isinstance(manifest, Mapping) or "kind" not in manifest:
        yield "is no manifest of an object: it needs apiVersion and kind"
        return  # for mypy: the first reason is raised
    job = team_job(manifest)
    if job is None:
        yield f"has the kind {manifest.get('apiVersion')} {manifest['kind']}, which is not supported: {SUPPORTED}"
        return
    yield from missing_mapping(manifest, "metadata")
    yield from missing_mapping(manifest, "spec")
    metadata = manifest["metadata"]
    if "generateName" in metadata:
        yield "has generateName: write metadata.name; each run gives its job a name of its own"
    if not isinstance(metadata.get("name"), str):
        yield "has no metadata.name"
    yield from job.refusals()
    yield from refused_pods(job)
    yield from _reserved(manifest, "")


def _reserved(part: Any, path: str) -> Iterator[str]:
    """Labels and annotations anywhere in a manifest that are ours."""
    if isinstance(part, list):
        for each in part:
            yield from _reserved(each, path)
    elif isinstance(part, Mapping):
        for key, value in part.items():
            where = f"{path}.{key}".lstrip(".")
            if key in ("labels", "annotations") and isinstance(value, Mapping):
                for name in value:
                    if str(name).startswith(RESERVED):
                        yield f"has {where} {name!r}: names that begin with {RESERVED} are those of chaoskit"
            else:
                yield from _reserved(value, where)
