"""The controller of Jobs: it makes their pods, counts how these end, and decides when a Job is over."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.job_pods import (
    COUNT,
    FAIL_INDEX,
    FAIL_JOB,
    IGNORE,
    TRACKING,
    Verdict,
    has_failed,
    index_of,
    is_active,
    is_indexed,
    is_leaving,
    is_over,
    is_ready,
    is_tracked,
    new_pod,
    phase,
    read_indexes,
    restarts,
    verdict,
    write_indexes,
)
from tests.kubernetes_server.lifecycle import now
from tests.kubernetes_server.pod_status import with_conditions
from tests.kubernetes_server.refusals import Refusal

Json = dict[str, Any]
BATCH = "batch"


@dataclass
class Failures:
    """How often the pods of an index, or of a whole Job, have failed since one succeeded, and when the last did."""

    count: int = 0
    last: float = 0.0


class JobController:
    """Looks after all Jobs. A pod is replaced `back_off` seconds after a failure, and twice as late after each more."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.back_off = 10.0
        self._failures: defaultdict[tuple[str, int], Failures] = defaultdict(Failures)

    def look(self) -> None:
        """Do for each Job what is to be done now."""
        jobs = {job["metadata"]["uid"]: job for job in self._plane.all("jobs", group=BATCH)}
        pods: defaultdict[str, list[Json]] = defaultdict(list)
        for pod in self._plane.all("pods"):
            pods[_owner_of(pod)].append(pod)
        for uid, job in jobs.items():
            if job["spec"].get("managedBy", "kubernetes.io/job-controller") == "kubernetes.io/job-controller":
                self._sync(job, pods[uid])
        for uid in set(pods) - set(jobs):
            self._let_go([pod for pod in pods[uid] if is_tracked(pod)])

    def _sync(self, job: Json, pods: list[Json]) -> None:
        if _has(job, "Complete") or _has(job, "Failed"):
            self._let_go([pod for pod in pods if is_tracked(pod)])
            self._expire(job)
            return
        status = dict(job.get("status") or {})
        ended = self._count(job, status, pods)
        failing = self._failing(job, status, pods, ended)
        if failing and not _has(job, "FailureTarget"):
            _add(status, "FailureTarget", *failing)
            self._plane.event(job, *failing, warning=True)
        self._suspend(job, status)
        active = [pod for pod in pods if is_active(pod)]
        if "deletionTimestamp" in job["metadata"]:
            pass
        elif failing or job["spec"].get("suspend"):
            if not failing:
                self._let_go(active)
            self._delete(job, active)
            active = []
        elif _is_complete(job, status, active):
            _add(status, "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
            self._delete(job, active)
            active = []
        else:
            active = self._manage(job, status, pods, active)
        present = [current for pod in pods if (current := self._plane.current(pod, "pods")) is not None]
        leaving = [pod for pod in present if is_leaving(pod)]
        if not active and not leaving:
            self._finish(job, status, failing)
        _number(status, active=len(active), ready=sum(map(is_ready, present)), terminating=len(leaving))
        self._write(job, status)
        self._let_go(ended)

    def _count(self, job: Json, status: Json, pods: list[Json]) -> list[Json]:
        """Add to a status the pods that have ended and are not counted yet; gives them."""
        indexed, found = is_indexed(job), [pod for pod in pods if is_tracked(pod)]
        done = read_indexes(status.get("completedIndexes", ""))
        ended = []
        for pod in found:
            index, uid = index_of(pod), job["metadata"]["uid"]
            if phase(pod) == "Succeeded":
                if not indexed:
                    status["succeeded"] = status.get("succeeded", 0) + 1
                elif 0 <= index < job["spec"]["completions"]:
                    done.add(index)
                self._failures.pop((uid, -1), None)
                ended.append(pod)
            elif has_failed(pod, job):
                said = verdict(pod, job)
                if said.action != IGNORE:
                    status["failed"] = status.get("failed", 0) + 1
                for key in {(uid, -1), (uid, index)}:
                    failures = self._failures[key]
                    failures.last = _seconds(now())
                    failures.count += said.action in (COUNT, FAIL_INDEX, FAIL_JOB)
                ended.append(pod)
        if indexed:
            if done:
                status["completedIndexes"] = write_indexes(done)
            _number(status, succeeded=len(done))
        return ended

    def _failing(self, job: Json, status: Json, pods: list[Json], ended: list[Json]) -> tuple[str, str] | None:
        """Why a Job fails, as a reason and a message; None where it does not. Notes the indexes that fail."""
        spec = job["spec"]
        if target := _has(job, "FailureTarget"):
            return target["reason"], target["message"]
        said = {id(pod): verdict(pod, job) for pod in ended if phase(pod) == "Failed"}
        for one in said.values():
            if one.action == FAIL_JOB:
                return "PodFailurePolicy", one.message
        if "backoffLimitPerIndex" in spec:
            self._note_failed_indexes(job, status, [(pod, said[id(pod)]) for pod in ended if id(pod) in said])
            failed = read_indexes(status.get("failedIndexes", ""))
            if len(failed) > spec.get("maxFailedIndexes", spec["completions"]):
                return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
            if failed and len(failed) + status.get("succeeded", 0) >= spec["completions"]:
                return "FailedIndexes", "Job has failed indexes"
        again = restarts(pod for pod in pods if is_active(pod)) if _restarts_in_place(job) else 0
        past = again > 0 and again >= spec["backoffLimit"]
        if past or status.get("failed", 0) > spec["backoffLimit"]:
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        longest = spec.get("activeDeadlineSeconds", float("inf"))
        if not spec.get("suspend") and _seconds(now()) - _seconds(status.get("startTime", now())) >= longest:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        return None

    def _note_failed_indexes(self, job: Json, status: Json, ended: list[tuple[Json, Verdict]]) -> None:
        failed = read_indexes(status.get("failedIndexes", ""))
        for pod, said in ended:
            index = index_of(pod)
            count = self._failures[(job["metadata"]["uid"], index)].count
            if said.action == FAIL_INDEX or count > job["spec"]["backoffLimitPerIndex"]:
                failed.add(index)
        failed -= read_indexes(status.get("completedIndexes", ""))
        status["failedIndexes"] = write_indexes(failed)

    def _suspend(self, job: Json, status: Json) -> None:
        """Say whether a Job is suspended; the time of its start begins anew with each resumption."""
        suspended = _has(job, "Suspended")
        if job["spec"].get("suspend"):
            if not suspended:
                _add(status, "Suspended", "JobSuspended", "Job suspended")
                self._plane.event(job, "Suspended", "Job suspended")
            status.pop("startTime", None)
            return
        if suspended:
            _add(status, "Suspended", "JobResumed", "Job resumed", holds=False)
            self._plane.event(job, "Resumed", "Job resumed")
        status.setdefault("startTime", now())

    def _manage(self, job: Json, status: Json, pods: list[Json], active: list[Json]) -> list[Json]:
        """Make as many pods active as a Job wants; gives those that are."""
        spec = job["spec"]
        done, failed = status.get("succeeded", 0), read_indexes(status.get("failedIndexes", ""))
        wanted = int(spec["parallelism"])
        if spec.get("completions") is not None:
            wanted = min(wanted, spec["completions"] - done - len(failed))
        elif done:
            wanted = min(wanted, len(active))
        if len(active) > wanted:
            self._let_go(active[wanted:])
            self._delete(job, active[wanted:])
            return active[:wanted]
        early = spec["podReplacementPolicy"] == "TerminatingOrFailed"
        held = [pod for pod in pods if not is_over(pod) and (is_active(pod) or not early)]
        count = wanted - len(held)
        indexes = [-1] * max(0, count)
        if is_indexed(job):
            taken = read_indexes(status.get("completedIndexes", "")) | failed | {index_of(pod) for pod in held}
            indexes = [index for index in range(spec["completions"]) if index not in taken][: max(0, count)]
        for index in indexes:
            if self._is_time(job, index):
                active = active + self._make(job, index)
        return active

    def _is_time(self, job: Json, index: int) -> bool:
        failures = self._failures.get((job["metadata"]["uid"], index if "backoffLimitPerIndex" in job["spec"] else -1))
        if failures is None or failures.count == 0:
            return True
        wait = min(self.back_off * 2 ** (failures.count - 1), 600.0)
        return _seconds(now()) - failures.last >= wait

    def _make(self, job: Json, index: int) -> list[Json]:
        """Make one pod; gives it, or nothing where it is refused."""
        failures = self._failures[(job["metadata"]["uid"], index)].count
        try:
            body, namespace = new_pod(job, index=index, failures=failures), job["metadata"]["namespace"]
            made = self._plane.create("pods", body, namespace=namespace)
        except Refusal as refusal:
            self._plane.event(job, "FailedCreate", f"Error creating: {refusal}", warning=True)
            return []
        self._plane.event(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return [made]

    def _delete(self, job: Json, pods: list[Json]) -> None:
        for pod in pods:
            self._plane.delete("pods", pod)
            self._plane.event(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    def _finish(self, job: Json, status: Json, failing: tuple[str, str] | None) -> None:
        """Say that a Job is over, once none of its pods runs."""
        if failing:
            _add(status, "Failed", *failing)
        elif any(one["type"] == "SuccessCriteriaMet" for one in status.get("conditions") or ()):
            _add(status, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
            status["completionTime"] = now()
            self._plane.event(job, "Completed", "Job completed")

    def _write(self, job: Json, status: Json) -> None:
        before = job.get("status") or {}
        change = {key: value for key, value in status.items() if before.get(key) != value}
        change |= {key: None for key in before if key not in status}
        if change:
            self._plane.patch("jobs", job, {"status": change}, group=BATCH, status=True)

    def _let_go(self, pods: list[Json]) -> None:
        """Take the finalizer off pods that are counted, or that nobody counts: what the controller deletes without need
        is no failure."""
        for pod in pods:
            if (current := self._plane.current(pod, "pods")) is not None:
                kept = [one for one in current["metadata"].get("finalizers") or () if one != TRACKING]
                self._plane.patch("pods", pod, {"metadata": {"finalizers": kept or None}})

    def _expire(self, job: Json) -> None:
        """Delete a Job whose time after its end is over."""
        if "ttlSecondsAfterFinished" in job["spec"] and "deletionTimestamp" not in job["metadata"]:
            over = _has(job, "Complete") or _has(job, "Failed")
            assert over is not None
            if _seconds(now()) - _seconds(over["lastTransitionTime"]) >= job["spec"]["ttlSecondsAfterFinished"]:
                self._plane.delete("jobs", job, group=BATCH, policy="Foreground")


def _owner_of(pod: Json) -> str:
    """The uid of the Job that a pod belongs to."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((one["uid"] for one in owners if one["kind"] == "Job" and one.get("controller")), "")


def _has(job: Json, kind: str) -> Json | None:
    """A condition of a Job that holds."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if (one["type"], one["status"]) == (kind, "True")), None)


def _add(status: Json, kind: str, reason: str, message: str, *, holds: bool = True) -> None:
    wanted: Json = {"status": str(holds), "reason": reason, "message": message}
    status["conditions"] = with_conditions(status.get("conditions") or (), {kind: wanted}, time=now())


def _is_complete(job: Json, status: Json, active: list[Json]) -> bool:
    done, completions = status.get("succeeded", 0), job["spec"].get("completions")
    if completions is None:
        return done > 0 and not active
    return bool(done >= completions)


def _restarts_in_place(job: Json) -> bool:
    return bool(job["spec"]["template"]["spec"].get("restartPolicy") == "OnFailure")


def _number(status: Json, **numbers: int) -> None:
    """Write numbers into a status; only some of them may be 0 there."""
    for name, number in numbers.items():
        status[name] = number
        if not number and name not in ("ready", "terminating"):
            del status[name]


def _seconds(time: str) -> float:
    return datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
