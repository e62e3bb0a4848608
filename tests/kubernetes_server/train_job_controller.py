"""Kubeflow Trainer, as far as it looks after TrainJobs of torch: it makes a JobSet of a runtime and of its patches.

What is not here: initializers, MPI and JAX, groups of pods, runtimes of a whole cluster, snapshots of a runtime.
"""

from __future__ import annotations

import copy
from typing import Any

from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.job_set_controller import GROUP as JOB_SETS
from tests.kubernetes_server.job_set_controller import holding
from tests.kubernetes_server.lifecycle import now
from tests.kubernetes_server.patches import merged_by_keys
from tests.kubernetes_server.pod_status import with_conditions
from tests.kubernetes_server.refusals import Refusal

Json = dict[str, Any]
GROUP, NODE = "trainer.kubeflow.org", "node"
STEP, PORT = f"{GROUP}/trainjob-ancestor-step", 29500
RESERVED = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


class TrainJobController:
    """Looks after all TrainJobs of a server that knows the kind."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def look(self) -> None:
        """Do for each TrainJob what is to be done now."""
        if not self._plane.knows("trainjobs", group=GROUP):
            return
        for found in self._plane.all("trainjobs", group=GROUP):
            if "deletionTimestamp" not in found["metadata"]:
                self._sync(found)

    def _sync(self, found: Json) -> None:
        metadata, spec, status = found["metadata"], found["spec"], copy.deepcopy(found.get("status") or {})
        suspended = bool(spec.get("suspend"))
        job_set = self._plane.get("jobsets", metadata["namespace"], metadata["name"], group=JOB_SETS)
        if not holding(found, "Complete") and not holding(found, "Failed"):
            if job_set is None:
                self._make(found)
            elif bool(job_set["spec"].get("suspend")) != suspended:
                self._plane.patch("jobsets", job_set, {"spec": {"suspend": suspended}}, group=JOB_SETS)
        if suspended:
            _add(status, "Suspended", "Suspended", "TrainJob is suspended")
        elif holding(found, "Suspended"):
            _add(status, "Suspended", "Resumed", "TrainJob is resumed", holds=False)
        if job_set is not None:
            for kind, own in (("Completed", "Complete"), ("Failed", "Failed")):
                if said := holding(job_set, kind):
                    _add(status, own, said["reason"], said["message"])
            of_jobs = (job_set.get("status") or {}).get("replicatedJobsStatus") or []
            names = ("name", "ready", "succeeded", "failed", "active", "suspended")
            status["jobsStatus"] = [{name: one[name] for name in names} for one in of_jobs]
        if status != (found.get("status") or {}):
            self._plane.patch("trainjobs", found, {"status": status}, group=GROUP, status=True)

    def _make(self, found: Json) -> None:
        metadata, wanted = found["metadata"], found["spec"]["runtimeRef"]
        runtime = self._plane.get("trainingruntimes", metadata["namespace"], wanted["name"], group=GROUP)
        try:
            if runtime is None or wanted.get("kind") != "TrainingRuntime":
                raise ValueError("specified trainingRuntime must be created before the TrainJob is created")
            body = new_job_set(found, runtime)
            self._plane.create("jobsets", body, namespace=metadata["namespace"], group=JOB_SETS)
        except (Refusal, ValueError) as error:
            why = f"TrainJob resources reconciliation failed: {error}"
            self._plane.event(found, "TrainJobResourcesCreationFailed", why, warning=True)


def new_job_set(found: Json, runtime: Json) -> Json:
    """The JobSet of a TrainJob. Raises ValueError for what the webhook refuses."""
    metadata, trainer = found["metadata"], found["spec"].get("trainer") or {}
    if reserved := sorted({one["name"] for one in trainer.get("env") or ()}.intersection(RESERVED)):
        raise ValueError(f"must not have reserved envs, invalid envs configured: {reserved}")
    template = copy.deepcopy(runtime["spec"]["template"])
    spec, labels = template["spec"], dict((template.get("metadata") or {}).get("labels") or {})
    for patch in found["spec"].get("runtimePatches") or ():
        if "/" not in patch["manager"]:
            raise ValueError("spec.runtimePatches.manager: must be a domain-prefixed path (such as \"acme.io/foo\")")
        changed = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        labels |= (changed.get("metadata") or {}).get("labels") or {}
        known = {job["name"] for job in spec["replicatedJobs"]}
        if not {job["name"] for job in (changed.get("spec") or {}).get("replicatedJobs") or ()} <= known:
            raise ValueError("must not have replicated job that doesn't exist in the runtime job template")
        spec = merged_by_keys(spec, changed.get("spec") or {})
    policy = runtime["spec"].get("mlPolicy") or {}
    for job in spec["replicatedJobs"]:
        if ((job["template"].get("metadata") or {}).get("labels") or {}).get(STEP) == "trainer":
            count = trainer.get("numNodes", policy.get("numNodes", 1))
            job["replicas"] = 1
            job["template"]["spec"] |= {"completions": count, "parallelism": count}
            for container in job["template"]["spec"]["template"]["spec"]["containers"]:
                if container["name"] == NODE:
                    _fill(container, trainer, count=count, name=metadata["name"], torch="torch" in policy)
    owner = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "TrainJob", "name": metadata["name"], "uid": metadata["uid"],
             "controller": True, "blockOwnerDeletion": True}  # fmt: skip
    own = {"name": metadata["name"], "labels": labels, "ownerReferences": [owner]}
    return {"metadata": own, "spec": {**spec, "suspend": bool(found["spec"].get("suspend"))}}


def _fill(container: Json, trainer: Json, *, count: int, name: str, torch: bool) -> None:
    """Write into the container that trains what a TrainJob says, and what torchrun must know."""
    container |= {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
    if "resourcesPerNode" in trainer:
        container["resources"] = trainer["resourcesPerNode"]
    own: list[Json] = list(trainer.get("env") or ())
    if torch:
        own += [
            {"name": "PET_NNODES", "value": str(count)},
            {"name": "PET_NPROC_PER_NODE", "value": str(trainer.get("numProcPerNode", 1))},
            {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}},
            {"name": "PET_MASTER_ADDR", "value": f"{name}-{NODE}-0-0.{name}"},
            {"name": "PET_MASTER_PORT", "value": str(PORT)},
        ]
    names = {one["name"] for one in own}
    container["env"] = [one for one in container.get("env") or () if one["name"] not in names] + own


def _add(status: Json, kind: str, reason: str, message: str, *, holds: bool = True) -> None:
    wanted: Json = {"status": str(holds), "reason": reason, "message": message}
    status["conditions"] = with_conditions(status.get("conditions") or (), {kind: wanted}, time=now())
