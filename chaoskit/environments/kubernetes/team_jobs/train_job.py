"""`TrainJob`: a job of Kubeflow Trainer, which makes a JobSet of a runtime. What a run adds is a patch of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from chaoskit.environments.kubernetes.api_kinds import JOB_SETS, JOBS, TRAIN_JOBS, ApiKind
from chaoskit.environments.kubernetes.team_jobs.indexed_job import PodsByIndex
from chaoskit.environments.kubernetes.team_jobs.job_set import JobSet
from chaoskit.environments.kubernetes.team_jobs.pod_shape import missing_mapping
from chaoskit.environments.kubernetes.team_jobs.team_job import (
    JOB,
    SERVICE,
    SUSPENDED,
    ControllerReport,
    PodTemplate,
    condition,
    part,
)
from chaoskit.errors import SupervisorGaveUp

#: The replicated job that trains, and its container, as the controller wants them.
_NODE = "node"
#: Who has made the patch of a run.
_MANAGER = "chaoskit.dev/run"
#: Variables that the controller sets. It refuses a manifest that sets them.
_RESERVED = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
_RUNTIME = "chaoskit does not read the runtime"


@dataclass(frozen=True)
class TrainJob(PodsByIndex):
    """See `TeamJob`. Its pods are those of the Job `node`."""

    manifest: Mapping[str, Any]
    api: ClassVar[ApiKind] = TRAIN_JOBS
    makes: ClassVar[tuple[ApiKind, ...]] = (JOB_SETS, JOBS)
    complete: ClassVar[str] = "Complete"

    def refusals(self) -> Iterator[str]:
        """See `TeamJob`."""
        spec = self.manifest["spec"]
        yield from missing_mapping(self.manifest, "spec.runtimeRef")
        yield from missing_mapping(self.manifest, "spec.trainer")
        trainer = spec["trainer"]
        for name, why in (("image", "looks into it"), ("command", "starts it")):
            if not trainer.get(name):
                yield f"has no spec.trainer.{name}: write it, since chaoskit {why}, and {_RUNTIME}"
        count = trainer.get("numNodes")
        if not isinstance(count, int) or count < 1:
            yield f"has no spec.trainer.numNodes: write how many nodes the job has, since {_RUNTIME}"
        for each in trainer.get("env") or ():
            if isinstance(each, Mapping) and each.get("name") in _RESERVED:
                yield f"sets {each['name']}, which the controller sets itself, and refuses in a manifest: leave it out"
        if spec.get("initializer"):
            yield "has an initializer, whose pods are no nodes: fetch models and data beforehand, and leave it out"
        if not isinstance(spec.get("runtimePatches") or [], list):
            yield "has spec.runtimePatches that are no list"
        for patch in self._patches:
            if not isinstance(patch, Mapping) or patch.get("name") != _NODE:
                yield f"patches another job of its runtime than {_NODE!r}, which alone chaoskit runs"
        if spec.get("suspend"):
            yield SUSPENDED

    @property
    def _patches(self) -> list[Mapping[str, Any]]:
        """What patches change in the replicated jobs of the runtime."""
        patches = self.manifest["spec"].get("runtimePatches") or ()
        found = [part(each, "trainingRuntimeSpec.template.spec").get("replicatedJobs") or () for each in patches]
        return [job for jobs in found for job in jobs]

    @property
    def pods(self) -> tuple[PodTemplate, ...]:
        """See `TeamJob`: the container that trains, with what patches say of its pod."""
        trainer = self.manifest["spec"]["trainer"]
        container = {name: trainer[name] for name in ("image", "command", "args", "env") if name in trainer}
        resources = {"resources": trainer["resourcesPerNode"]} if "resourcesPerNode" in trainer else {}
        pod: dict[str, Any] = {}
        for job in self._patches:
            pod |= part(job, "template.spec.template.spec")
        pod |= {"containers": [{"name": _NODE, **container, **resources}], "volumes": []}
        return (PodTemplate("spec.trainer", {"spec": pod}),)

    @property
    def nodes(self) -> int:
        """See `TeamJob`."""
        return int(self.manifest["spec"]["trainer"]["numNodes"])

    def with_pods(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, service: str) -> dict[str, Any]:
        """See `TeamJob`. The JobSet has the name of the service, and takes it for the names of its pods."""
        spec, pod = self.manifest["spec"], change(self.pods[0].manifest)["spec"]
        (container,) = pod["containers"]
        trainer = {name: container[name] for name in ("command", "args", "env") if name in container}
        volumes, mounts = _one_mount_each(pod["volumes"], container["volumeMounts"])
        mounted = {"name": _NODE, "volumeMounts": mounts}
        template: dict[str, Any] = {"spec": {"containers": [mounted], "volumes": volumes}}
        job = {"name": _NODE, "template": {"spec": {"template": template}}}
        patch = {"manager": _MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
        return {
            **self.manifest,
            "spec": {
                **spec,
                "trainer": {**spec["trainer"], **trainer},
                "runtimePatches": [*(spec.get("runtimePatches") or ()), patch],
            },
        }

    def address(self, number: int, *, job: str = JOB, service: str = SERVICE) -> str:
        """See `TeamJob`."""
        return f"{job}-{_NODE}-0-{number}.{service}"

    def gave_up(self, report: ControllerReport) -> SupervisorGaveUp | None:
        """See `TeamJob`: the reasons are those of its JobSet."""
        for made in report.made:
            if (job_set := _of_node(made)) is not None:
                jobs = [each for each in report.made if each is not made]
                if (over := job_set.gave_up(replace(report, job=made, made=jobs))) is not None:
                    return over
        failed = condition(report.job, "Failed")
        if failed is None:
            return None
        reason, message = str(failed.get("reason")), str(failed.get("message"))
        said = f"the TrainJob has failed ({reason}): {message}"
        return SupervisorGaveUp(said, reason=reason, code="crash-loop")


def _one_mount_each(
    volumes: Sequence[Mapping[str, Any]], mounts: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The same volumes and mounts, with a volume for each mount: a patch has one mount of a volume at most."""
    known = {volume["name"]: volume for volume in volumes}
    named = [(f"{mount['name']}-{number}", mount) for number, mount in enumerate(mounts)]
    return (
        [{**known[mount["name"]], "name": name} for name, mount in named],
        [{**mount, "name": name} for name, mount in named],
    )


def _of_node(made: Mapping[str, Any]) -> JobSet | None:
    """A JobSet, of whose Jobs only the one that trains counts; None for another object."""
    jobs: Sequence[Mapping[str, Any]] = part(made, "spec").get("replicatedJobs") or ()
    nodes = [job for job in jobs if job["name"] == _NODE]
    return JobSet({**made, "spec": {**made["spec"], "replicatedJobs": nodes}}) if nodes else None
