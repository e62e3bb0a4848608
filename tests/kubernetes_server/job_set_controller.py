"""The controller of JobSets: it makes their Jobs, makes them anew when one has failed, and says when it gives up.

What is not here: rules that restart one Job alone, restarts in place, an order of start, dependencies, volume claims.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.lifecycle import now
from tests.kubernetes_server.pod_status import with_conditions
from tests.kubernetes_server.refusals import Refusal

Json = dict[str, Any]
BATCH, GROUP, LABEL = "batch", "jobset.x-k8s.io", "jobset.sigs.k8s.io"
ATTEMPT = f"{LABEL}/restart-attempt"
FAIL, RESTART, RESTART_UNCOUNTED = "FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"


class JobSetController:
    """Looks after all JobSets of a server that knows the kind."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def look(self) -> None:
        """Do for each JobSet what is to be done now."""
        if not self._plane.knows("jobsets", group=GROUP):
            return
        jobs: defaultdict[str, list[Json]] = defaultdict(list)
        for job in self._plane.all("jobs", group=BATCH):
            for owner in job["metadata"].get("ownerReferences") or ():
                if owner["kind"] == "JobSet" and owner.get("controller"):
                    jobs[owner["uid"]].append(job)
        for found in self._plane.all("jobsets", group=GROUP):
            managed = found["spec"].get("managedBy", f"{LABEL}/jobset-controller") == f"{LABEL}/jobset-controller"
            if managed and "deletionTimestamp" not in found["metadata"]:
                self._sync(found, jobs[found["metadata"]["uid"]])

    def _sync(self, found: Json, jobs: list[Json]) -> None:
        status = copy.deepcopy(found.get("status") or {})
        restarts = status.get("restarts", 0)
        previous = [job for job in jobs if int(job["metadata"]["labels"][ATTEMPT]) < restarts]
        current = [job for job in jobs if job not in previous]
        failed = [job for job in current if holding(job, "Failed")]
        ended = [job for job in current if holding(job, "Complete")]
        active = [job for job in current if job not in failed and job not in ended]
        status["replicatedJobsStatus"] = list(_replicated(found, active, ended, failed))
        if holding(found, "Completed") or holding(found, "Failed"):
            self._delete(active)
        else:
            self._delete(previous)
            if failed:
                self._act_on(found, status, failed)
            elif len(ended) >= _expected(found, ended):
                _add(status, "Completed", "AllJobsCompleted", "jobset completed successfully")
                status["terminalState"] = "Completed"
            else:
                self._serve(found)
                self._make(found, status, jobs)
                self._suspend(found, status, active)
        if status != (found.get("status") or {}):
            self._plane.patch("jobsets", found, {"status": status}, group=GROUP, status=True)

    def _act_on(self, found: Json, status: Json, failed: list[Json]) -> None:
        """Follow the policy for failed Jobs."""
        policy = found["spec"].get("failurePolicy")
        first = min(failed, key=lambda job: str((holding(job, "Failed") or {})["lastTransitionTime"]))
        if policy is None:
            self._fail(found, status, "FailedJobs", "jobset failed due to one or more job failures", first)
            return
        action, first, name = _action(policy, failed, first)
        if action == FAIL:
            why = "applying FailJobSet failure policy action"
            self._fail(found, status, "FailJobSetFailurePolicyAction", why, first)
        elif action == RESTART and status.get("restartsCountTowardsMax", 0) >= policy.get("maxRestarts", 0):
            why = "jobset failed due to reaching max number of restarts"
            self._fail(found, status, "ReachedMaxRestarts", why, first)
        else:
            status["restarts"] = status.get("restarts", 0) + 1
            status["restartsCountTowardsMax"] = status.get("restartsCountTowardsMax", 0) + (action == RESTART)
            said = f"applying {action} failure policy action (first failed job: {first['metadata']['name']})"
            _add(status, "RestartingJobSet", name, said)
            self._plane.event(found, f"{action}FailurePolicyAction", said, warning=True)

    def _fail(self, found: Json, status: Json, reason: str, message: str, first: Json) -> None:
        said = f"{message} (first failed job: {first['metadata']['name']})"
        _add(status, "Failed", reason, said)
        status["terminalState"] = "Failed"
        self._plane.event(found, reason, said, warning=True)

    def _serve(self, found: Json) -> None:
        """Make the service of the pods' names, unless there is one."""
        network = found["spec"].get("network") or {}
        metadata, name = found["metadata"], network.get("subdomain") or found["metadata"]["name"]
        if network.get("enableDNSHostnames", True) and not self._plane.get("services", metadata["namespace"], name):
            spec = {"clusterIP": "None", "selector": {f"{LABEL}/jobset-name": metadata["name"]},
                    "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True)}  # fmt: skip
            body = {"metadata": {"name": name, "ownerReferences": [_owner(found)]}, "spec": spec}
            self._create("services", found, body)

    def _make(self, found: Json, status: Json, jobs: list[Json]) -> None:
        there = {job["metadata"]["name"] for job in jobs}
        for replicated in found["spec"]["replicatedJobs"]:
            for index in range(replicated.get("replicas", 1)):
                job = new_job(found, replicated, index, attempt=status.get("restarts", 0))
                if job["metadata"]["name"] not in there:
                    self._create("jobs", found, job, group=BATCH)

    def _create(self, plural: str, found: Json, body: Json, *, group: str = "") -> None:
        try:
            self._plane.create(plural, body, namespace=found["metadata"]["namespace"], group=group)
        except Refusal as refusal:
            self._plane.event(found, "JobCreationFailed", str(refusal), warning=True)

    def _suspend(self, found: Json, status: Json, active: list[Json]) -> None:
        suspended = bool(found["spec"].get("suspend"))
        for job in active:
            if bool(job["spec"].get("suspend")) != suspended:
                self._plane.patch("jobs", job, {"spec": {"suspend": suspended}}, group=BATCH)
        if suspended:
            _add(status, "Suspended", "SuspendedJobs", "jobset is suspended")
        elif holding({"status": status}, "Suspended"):
            _add(status, "Suspended", "ResumeJobs", "jobset is resumed", holds=False)

    def _delete(self, jobs: list[Json]) -> None:
        for job in jobs:
            if "deletionTimestamp" not in job["metadata"]:
                self._plane.delete("jobs", job, group=BATCH, policy="Foreground")


def new_job(found: Json, replicated: Json, index: int, *, attempt: int) -> Json:
    """A Job of a JobSet, as the controller makes it after so many restarts."""
    spec, metadata = found["spec"], found["metadata"]
    template = copy.deepcopy(replicated["template"])
    name = f"{metadata['name']}-{replicated['name']}-{index}"
    marks = {f"{LABEL}/jobset-name": metadata["name"], f"{LABEL}/jobset-uid": metadata["uid"],
             f"{LABEL}/replicatedjob-name": replicated["name"], ATTEMPT: str(attempt),
             f"{LABEL}/replicatedjob-replicas": str(replicated.get("replicas", 1)),
             f"{LABEL}/job-index": str(index)}  # fmt: skip
    job = {"metadata": {**(template.get("metadata") or {}), "name": name}, "spec": template["spec"]}
    job["spec"].setdefault("completionMode", "Indexed")
    job["spec"]["suspend"] = bool(spec.get("suspend"))
    pods = job["spec"]["template"]
    pods["spec"].setdefault("restartPolicy", "OnFailure")
    network = spec.get("network") or {}
    if network.get("enableDNSHostnames", True):
        pods["spec"]["subdomain"] = network.get("subdomain") or metadata["name"]
    for labelled in (job, pods):
        own = labelled.setdefault("metadata", {})
        for kind in ("labels", "annotations"):
            own[kind] = {**(own.get(kind) or {}), **marks}
    job["metadata"]["ownerReferences"] = [_owner(found)]
    return job


def holding(obj: Json, kind: str) -> Json | None:
    """A condition of an object that holds."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if (one["type"], one["status"]) == (kind, "True")), None)


def _action(policy: Json, failed: list[Json], first: Json) -> tuple[str, Json, str]:
    """What the policy does, the Job that it does it for, and the reason."""
    for number, rule in enumerate(policy.get("rules") or ()):
        matching = [job for job in failed if _matches(rule, job)]
        if matching:
            name = rule.get("name") or f"failurePolicyRule{number}"
            return rule["action"], matching[0], f"FailurePolicy_{name}"
    return RESTART, first, "DefaultFailurePolicy"


def _matches(rule: Json, job: Json) -> bool:
    failed = holding(job, "Failed") or {}
    reasons, jobs = rule.get("onJobFailureReasons"), rule.get("targetReplicatedJobs")
    patterns = rule.get("onJobFailureMessagePatterns")
    return (
        (not reasons or failed["reason"] in reasons)
        and (not patterns or any(re.search(one, failed["message"]) for one in patterns))
        and (not jobs or job["metadata"]["labels"][f"{LABEL}/replicatedjob-name"] in jobs)
    )


def _expected(found: Json, ended: list[Json]) -> int:
    """How many Jobs must have ended well."""
    if (found["spec"].get("successPolicy") or {}).get("operator") == "Any":
        return 1
    return sum(one.get("replicas", 1) for one in found["spec"]["replicatedJobs"])


def _replicated(found: Json, active: list[Json], ended: list[Json], failed: list[Json]) -> Iterator[Json]:
    def of(jobs: list[Json], name: str) -> list[Json]:
        return [job for job in jobs if job["metadata"]["labels"][f"{LABEL}/replicatedjob-name"] == name]

    for replicated in found["spec"]["replicatedJobs"]:
        name = replicated["name"]
        statuses = [(job["spec"], job.get("status") or {}) for job in of(active, name)]
        ready = sum(one.get("ready", 0) + one.get("succeeded", 0) >= spec["parallelism"] for spec, one in statuses)
        yield {
            "name": name, "ready": ready, "succeeded": len(of(ended, name)), "failed": len(of(failed, name)),
            "active": sum(one.get("active", 0) > 0 for _, one in statuses),
            "suspended": sum(bool(spec.get("suspend")) for spec, _ in statuses),
        }  # fmt: skip


def _owner(found: Json) -> Json:
    metadata = found["metadata"]
    return {"apiVersion": f"{GROUP}/v1alpha2", "kind": "JobSet", "name": metadata["name"], "uid": metadata["uid"],
            "controller": True, "blockOwnerDeletion": True}  # fmt: skip


def _add(status: Json, kind: str, reason: str, message: str, *, holds: bool = True) -> None:
    wanted: Json = {"status": str(holds), "reason": reason, "message": message}
    status["conditions"] = with_conditions(status.get("conditions") or (), {kind: wanted}, time=now())
