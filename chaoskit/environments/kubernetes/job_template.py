"""`JobTemplate`: the team's own manifest of a job, as it is, and what chaoskit must know of it. Pure functions."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import FURTHER_JOBS, JOBS
from chaoskit.environments.kubernetes.team_jobs.kinds import accepted_job
from chaoskit.environments.kubernetes.team_jobs.pod_shape import training
from chaoskit.environments.kubernetes.team_jobs.team_job import TeamJob
from chaoskit.environments.kubernetes.template_refusals import refusals
from chaoskit.errors import UsageError
from chaoskit.job import OUT, Job
from chaoskit.nodes import GRACE, ClusterPlace

_RESTARTS = "PET_MAX_RESTARTS"


@dataclass(frozen=True)
class JobTemplate:
    """One manifest. Raises UsageError, with the remedy, for a manifest that chaoskit cannot run."""

    manifest: Mapping[str, Any]

    def __post_init__(self) -> None:
        for why in refusals(self.manifest):
            raise UsageError(f"the job template {why}")

    @property
    def job(self) -> TeamJob:
        """The job as its kind knows it."""
        return accepted_job(self.manifest)

    @property
    def name(self) -> str:
        """The name that the job has in the template. That of a run has another."""
        return str(self.manifest["metadata"]["name"])

    @property
    def nodes(self) -> int:
        """The number of its pods."""
        return self.job.nodes

    @property
    def pod(self) -> Mapping[str, Any]:
        """The specification of its first pod."""
        found: Mapping[str, Any] = self.job.pods[0].manifest["spec"]
        return found

    @property
    def container(self) -> Mapping[str, Any]:
        """The container of that pod in which the job trains: the one that names `{out}`."""
        return training(self.job.pods[0])

    @property
    def image(self) -> str:
        """The image of that container."""
        return str(self.container["image"])

    @property
    def words(self) -> list[str]:
        """The command and the arguments of that container."""
        return [*self.container["command"], *(self.container.get("args") or ())]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the environment variables that the template sets."""
        return tuple(str(each["name"]) for each in self.container.get("env") or ())

    @property
    def telling(self) -> dict[str, str]:
        """Those of its variables that say where `{out}` goes, or how often torchrun restarts the ranks itself."""
        given = {each["name"]: each.get("value") or "" for each in self.container.get("env") or ()}
        told = {name: value for name, value in given.items() if OUT in value or name == _RESTARTS}
        return told | {name: value for name, value in self.job.variables.items() if name == _RESTARTS}

    @property
    def directory(self) -> str:
        """The directory in which the command starts; "" for that of the image."""
        return str(self.container.get("workingDir") or "")

    @property
    def user(self) -> int | None:
        """The user that the pods run as; None for that of the image."""
        own = {**(self.pod.get("securityContext") or {}), **(self.container.get("securityContext") or {})}
        return own.get("runAsUser")

    @property
    def makes_claims(self) -> bool:
        """Whether a cluster makes volume claims for the job."""
        return makes_claims(self.manifest)

    def place(self, place: ClusterPlace) -> ClusterPlace:
        """The same place in the cluster, with the settings that the template gives its pods. Raises UsageError for a
        template of another namespace, and for settings of pods beside it."""
        own = self.manifest["metadata"].get("namespace", place.namespace)
        if own != place.namespace:
            raise UsageError(
                f"the job template is for namespace {own!r}, and --namespace is {place.namespace!r}: chaoskit makes "
                "objects in one namespace alone; leave metadata.namespace out"
            )
        settings = ("resources", "node_selector", "tolerations", "pull_secret", "service_account")
        for name in settings:
            if getattr(place, name):
                key = name.replace("_", "-")
                raise UsageError(f"{key} belongs into the job template: remove {key} from the settings of the pods")
        if place.grace != GRACE:
            raise UsageError(
                "grace belongs into the job template, as terminationGracePeriodSeconds: remove it from the settings of "
                "the pods"
            )
        pod = self.pod
        secrets = pod.get("imagePullSecrets") or [{}]
        return replace(
            place,
            node_selector=pod.get("nodeSelector") or {},
            tolerations=pod.get("tolerations") or (),
            pull_secret=secrets[0].get("name", ""),
            service_account=pod.get("serviceAccountName", ""),
        )


def of_place(place: ClusterPlace | None) -> JobTemplate | None:
    """The template of the jobs in a place; None where chaoskit makes the pods itself. Raises UsageError."""
    return JobTemplate(place.job_template) if place is not None and place.job_template else None


def makes_claims(manifest: Any) -> bool:
    """Whether a cluster makes volume claims for a job: for each of its pods, or, of a JobSet, for all of them."""
    if isinstance(manifest, Mapping):
        own = any(manifest.get(name) for name in ("volumeClaimTemplate", "volumeClaimPolicies"))
        return own or any(map(makes_claims, manifest.values()))
    return isinstance(manifest, list | tuple) and any(map(makes_claims, manifest))


def must_suit(job: Job, template: JobTemplate) -> None:
    """Raises UsageError for a job that asks for what a template decides itself."""
    if job.resume_args or job.relaunch_command:
        raise UsageError(
            "--resume-args cannot be used with a job template: its controller starts the same command again; let the "
            "command find its newest checkpoint"
        )
    if (job.nodes.least, job.nodes.most) != (template.nodes, template.nodes):
        raise UsageError(f"the job template has {template.nodes} pods, and --nodes is {job.nodes}: leave --nodes out")
    if job.image != template.image:
        raise UsageError(f"the job template has the image {template.image!r}, not {job.image!r}: leave --image out")


def digest(template: JobTemplate) -> str:
    """Identifies the manifest."""
    return hashlib.sha256(json.dumps(template.manifest, sort_keys=True, default=str).encode()).hexdigest()[:16]


def read_template(path: Path) -> dict[str, Any]:
    """The manifest in a file of YAML. Raises UsageError for a file that cannot be read, and for one that has none, or
    something beside it."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise UsageError("PyYAML is not installed: pip install 'chaoskit[kubernetes]'") from error
    try:
        found = [each for each in yaml.safe_load_all(path.read_text()) if each is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"--job-template {path}: it cannot be read: {' '.join(str(error).split())}") from error
    kinds = [each.kind for each in (JOBS, *FURTHER_JOBS)]
    jobs = [each for each in found if isinstance(each, dict) and each.get("kind") in kinds]
    others = [each.get("kind", "?") if isinstance(each, dict) else "?" for each in found if each not in jobs]
    if others and jobs:
        raise UsageError(
            f"--job-template {path}: it also has {', '.join(map(str, others))}: chaoskit makes the job alone; make "
            "the others in the namespace beforehand, and leave them out of this file"
        )
    if len(found) != 1:
        raise UsageError(f"--job-template {path}: it has {len(found)} manifests: it must have one job")
    try:
        JobTemplate(found[0])
    except UsageError as error:
        raise UsageError(f"--job-template {path}: {error}") from error
    manifest: dict[str, Any] = found[0]
    return manifest
