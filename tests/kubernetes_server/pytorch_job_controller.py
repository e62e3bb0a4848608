"""The training operator, as far as it looks after PyTorchJobs.

What is not here: groups of pods that are scheduled together, autoscalers, the removal of jobs that are long over.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.lifecycle import now
from tests.kubernetes_server.pytorch_jobs import (
    GROUP,
    LABEL,
    MASTER,
    WORKER,
    code_of,
    is_restarted,
    name_of,
    new_pod,
    new_service,
    replicas_of,
    restarts,
)
from tests.kubernetes_server.refusals import Refusal

Json = dict[str, Any]
PLURAL, OPERATOR = "pytorchjobs", "kubeflow.org/training-operator"


class PyTorchJobController:
    """Looks after all PyTorchJobs of a server that knows the kind."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def look(self) -> None:
        """Do for each job what is to be done now."""
        if not self._plane.knows(PLURAL, group=GROUP):
            return
        pods: defaultdict[str, list[Json]] = defaultdict(list)
        for pod in self._plane.all("pods"):
            for owner in pod["metadata"].get("ownerReferences") or ():
                if owner["kind"] == "PyTorchJob" and owner.get("controller"):
                    pods[owner["uid"]].append(pod)
        for job in self._plane.all(PLURAL, group=GROUP):
            managed = (job["spec"].get("runPolicy") or {}).get("managedBy", OPERATOR) == OPERATOR
            if managed and "deletionTimestamp" not in job["metadata"]:
                status = copy.deepcopy(job.get("status") or {})
                self._sync(job, status, pods[job["metadata"]["uid"]])
                if status != (job.get("status") or {}):
                    self._plane.patch(PLURAL, job, {"status": status}, group=GROUP, status=True)

    def _sync(self, job: Json, status: Json, pods: list[Json]) -> None:
        policy, name = job["spec"].get("runPolicy") or {}, job["metadata"]["name"]
        _set(status, "Created", "PyTorchJobCreated", f"PyTorchJob {name} is created.")
        if _has(status, "Succeeded") or _has(status, "Failed"):
            self._clean(pods, policy.get("cleanPodPolicy", "None"))
            return
        if policy.get("suspend"):
            self._clean(pods, "All")
            said = ("PyTorchJobSuspended", f"PyTorchJob {name} is suspended.")
            if _has(status, "Running"):
                _set(status, "Running", *said, holds=False)
            if not _has(status, "Suspended"):
                _set(status, "Suspended", *said)
                self._plane.event(job, *said)
            for each in (status.get("replicaStatuses") or {}).values():
                each.pop("active", None)
            return
        if _has(status, "Suspended"):
            _set(status, "Suspended", "PyTorchJobResumed", f"PyTorchJob {name} is resumed.", holds=False)
            status["startTime"] = now()
        if why := _past_limits(job, status, pods):
            status.setdefault("completionTime", now())
            self._clean(pods, "All")
            _set(status, "Failed", "PyTorchJobFailed", why)
            self._plane.event(job, "PyTorchJobFailed", why)
            return
        for replica, wanted in replicas_of(job).items():
            counts = self._reconcile(job, status, replica, wanted, pods)
            status.setdefault("replicaStatuses", {})[replica] = _numbers(counts)
        status.setdefault("startTime", now())
        _conclude(job, status)

    def _reconcile(self, job: Json, status: Json, replica: str, wanted: Json, pods: list[Json]) -> dict[str, int]:
        """Make, or make again, the pods of one type and their services; how many of them are how."""
        counts = {"active": 0, "succeeded": 0, "failed": 0}
        name = job["metadata"]["name"]
        for index in range(wanted["replicas"]):
            called = name_of(job, replica, index)
            if self._plane.get("services", job["metadata"]["namespace"], called) is None:
                self._make("services", job, new_service(job, replica, index))
            pod = next((each for each in pods if each["metadata"]["name"] == called), None)
            if pod is None:
                self._make("pods", job, new_pod(job, replica, index))
                continue
            phase, leaves = (pod.get("status") or {}).get("phase"), "deletionTimestamp" in pod["metadata"]
            if phase == "Failed" and not leaves:
                if is_restarted(wanted["restartPolicy"], code_of(pod)):
                    self._plane.delete("pods", pod)
                    why = f"job {name} is restarting because {replica} replica(s) failed."
                    _set(status, "Restarting", "PyTorchJobRestarting", why)
                    self._plane.event(job, "PyTorchJobRestarting", why, warning=True)
                elif wanted["restartPolicy"] == "ExitCode":
                    why = f'job "{name}" is failing because "{replica}" replica(s) failed.'
                    _set(status, "Failed", "PyTorchJobFailed", why)
                    self._plane.event(job, "PyTorchJobFailed", why, warning=True)
            counts["active"] += phase == "Running" and not leaves
            counts["succeeded"] += phase == "Succeeded"
            counts["failed"] += phase == "Failed" or (phase == "Running" and leaves)
        return counts

    def _make(self, plural: str, job: Json, body: Json) -> None:
        try:
            self._plane.create(plural, body, namespace=job["metadata"]["namespace"])
        except Refusal as refusal:
            self._plane.event(job, "FailedCreate", f"Error creating: {refusal}", warning=True)

    def _clean(self, pods: list[Json], policy: str) -> None:
        """Delete pods and their services, as the policy for a job that is over says."""
        for pod in pods:
            runs = (pod.get("status") or {}).get("phase") in ("Running", "Pending")
            if policy == "All" or (policy == "Running" and runs):
                if "deletionTimestamp" not in pod["metadata"]:
                    self._plane.delete("pods", pod)
                metadata = pod["metadata"]
                service = self._plane.get("services", metadata["namespace"], metadata["name"])
                if service is not None:
                    self._plane.delete("services", service)


def _past_limits(job: Json, status: Json, pods: list[Json]) -> str:
    """Why a job has failed by a limit of its own; "" if it has not."""
    policy, name, replicas = job["spec"].get("runPolicy") or {}, job["metadata"]["name"], replicas_of(job)
    if (limit := policy.get("backoffLimit")) is not None:
        phases = [(pod.get("status") or {}).get("phase") for pod in pods]
        known = sum(each.get("failed", 0) for each in (status.get("replicaStatuses") or {}).values())
        # The operator compares how often it has looked in vain, which is hardly ever more than once.
        exceeds = phases.count("Failed") > known and limit < 1
        counted = {name.lower() for name, each in replicas.items() if each["restartPolicy"] != "Never"}
        count = restarts(pod for pod in pods if pod["metadata"]["labels"][f"{LABEL}/replica-type"] in counted)
        if exceeds or (count > 0 and count >= limit):
            return f"Job {name} has failed because it has reached the specified backoff limit"
    longest, began = policy.get("activeDeadlineSeconds"), status.get("startTime")
    if longest is not None and began and _seconds(now()) - _seconds(began) >= longest:
        return f"Job {name} has failed because it was active longer than specified deadline"
    return ""


def _conclude(job: Json, status: Json) -> None:
    """Say whether a job runs, restarts, or is over."""
    metadata, replicas, name = job["metadata"], replicas_of(job), job["metadata"]["name"]
    leading = MASTER if MASTER in replicas else WORKER
    title = f"{name} is" if leading == MASTER else f"{metadata['namespace']}/{name}"
    for replica, wanted in replicas.items():
        counts = status["replicaStatuses"][replica]
        running, succeeded = counts.get("active", 0), counts.get("succeeded", 0)
        if replica == leading:
            elastic = leading == WORKER and job["spec"].get("elasticPolicy") is not None
            if succeeded >= wanted["replicas"] or (elastic and succeeded):
                _set(status, "Succeeded", "PyTorchJobSucceeded", f"PyTorchJob {title} successfully completed.")
                status.setdefault("completionTime", now())
                return
            if running:
                _set(status, "Running", "PyTorchJobRunning", f"PyTorchJob {title.removesuffix(' is')} is running.")
        failed = counts.get("failed", 0)
        if failed and wanted["replicas"] > succeeded + running:
            why = f"because {failed} {replica} replica(s) failed."
            if wanted["restartPolicy"] == "Never":
                status.setdefault("completionTime", now())
                _set(status, "Failed", "PyTorchJobFailed", f"PyTorchJob {name} is failed {why}")
            else:
                _set(status, "Restarting", "PyTorchJobRestarting", f"PyTorchJob {name} is restarting {why}")


def _has(status: Json, kind: str) -> bool:
    return any((one["type"], one["status"]) == (kind, "True") for one in status.get("conditions") or ())


def _set(status: Json, kind: str, reason: str, message: str, *, holds: bool = True) -> None:
    """Set a condition as the operator does: none after Failed, and of Running and Restarting only one."""
    found = status.setdefault("conditions", [])
    before = next((one for one in found if one["type"] == kind), None)
    if _has(status, "Failed") or (before and (before["status"], before["reason"]) == (str(holds), reason)):
        return
    other = {"Running": "Restarting", "Restarting": "Running"}.get(kind)
    kept = [dict(one) for one in found if one["type"] not in (kind, other)]
    for one in kept:
        if kind in ("Failed", "Succeeded") and one["type"] == "Running":
            one["status"] = "False"
    time = now()
    since = before["lastTransitionTime"] if before and before["status"] == str(holds) else time
    fresh = {"type": kind, "status": str(holds), "reason": reason, "message": message, "lastUpdateTime": time,
             "lastTransitionTime": since}  # fmt: skip
    status["conditions"] = [*kept, fresh]


def _numbers(counts: dict[str, int]) -> Json:
    return {name: number for name, number in counts.items() if number}


def _seconds(time: str) -> float:
    return datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
