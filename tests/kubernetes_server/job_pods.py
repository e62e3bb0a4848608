"""The pods of a Job as its controller counts them: indexes, failures, the policy for failures. Pure functions."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
#: What a rule of the policy does; where none matches, a failure counts.
COUNT, IGNORE, FAIL_JOB, FAIL_INDEX = "Count", "Ignore", "FailJob", "FailIndex"


@dataclass(frozen=True)
class Verdict:
    """What a failed pod does to its Job, and why."""

    action: str = COUNT
    message: str = ""


def is_indexed(job: Json) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Json) -> int:
    """The completion index of a pod; -1 where it has none."""
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, -1))


def phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def is_over(pod: Json) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def is_leaving(pod: Json) -> bool:
    """Whether a pod is deleted and its containers may run still."""
    return "deletionTimestamp" in pod["metadata"] and not is_over(pod)


def is_active(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and not is_over(pod)


def is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return is_active(pod) and any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


def is_tracked(pod: Json) -> bool:
    """Whether a pod is still to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def has_failed(pod: Json, job: Json) -> bool:
    """Whether a pod counts as failed: where pods are replaced early, as soon as it is deleted."""
    if phase(pod) == "Failed" or job["spec"]["podReplacementPolicy"] == "Failed":
        return phase(pod) == "Failed"
    return is_leaving(pod)


def verdict(pod: Json, job: Json) -> Verdict:
    """What the policy says of a failed pod."""
    for number, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        if said := _matches(pod, rule):
            return Verdict(rule["action"], f"{said} matching {rule['action']} rule at index {number}")
    return Verdict()


def _matches(pod: Json, rule: Json) -> str:
    """What in a pod matches a rule, in the controller's words; "" where nothing does."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    title = f"{metadata['namespace']}/{metadata['name']}"
    if wanted := rule.get("onExitCodes"):
        for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
            code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
            named = wanted.get("containerName") in (None, container["name"])
            if code and named and (code in wanted["values"]) == (wanted["operator"] == "In"):
                return f"Container {container['name']} for pod {title} failed with exit code {code}"
    for pattern in rule.get("onPodConditions") or ():
        for condition in status.get("conditions") or ():
            if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status", "True")):
                return f"Pod {title} has condition {condition['type']}"
    return ""


def restarts(pods: Iterable[Json]) -> int:
    """How often the containers of pods have restarted."""
    groups = ("initContainerStatuses", "containerStatuses")
    return sum(
        one.get("restartCount", 0)
        for pod in pods
        for group in groups
        for one in (pod.get("status") or {}).get(group) or ()
    )


def read_indexes(text: str) -> set[int]:
    """The numbers of a text such as `0,2-4`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def write_indexes(numbers: Iterable[int]) -> str:
    """Numbers as `read_indexes` reads them: three or more in a row as the first and the last."""
    return ",".join(_parts(sorted(numbers)))


def _parts(numbers: Sequence[int]) -> Iterator[str]:
    at = 0
    while at < len(numbers):
        end = at
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        if end - at == 1:
            yield from (str(numbers[at]), str(numbers[end]))
        else:
            yield str(numbers[at]) if end == at else f"{numbers[at]}-{numbers[end]}"
        at = end + 1


def new_pod(job: Json, *, index: int, failures: int) -> Json:
    """The pod that a Job wants next; `index` is -1 where it has none."""
    template = copy.deepcopy(job["spec"]["template"])
    metadata, spec, name = template.get("metadata") or {}, template["spec"], job["metadata"]["name"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}  # fmt: skip
    metadata |= {"generateName": f"{name}-", "ownerReferences": [owner], "finalizers": [TRACKING]}
    if index >= 0:
        metadata["generateName"] = f"{name}-{index}-"
        for kind in ("annotations", "labels"):
            metadata[kind] = (metadata.get(kind) or {}) | {INDEX: str(index)}
        if "backoffLimitPerIndex" in job["spec"]:
            metadata["annotations"][FAILURES] = str(failures)
        spec["hostname"] = f"{name}-{index}"
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{INDEX}']"}}
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
            variables = container.setdefault("env", [])
            if not any(one["name"] == "JOB_COMPLETION_INDEX" for one in variables):
                variables.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
    return {"metadata": metadata, "spec": spec}
