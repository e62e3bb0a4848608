"""What the server writes into objects of built-in kinds where a client leaves it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def complete(kind: str, obj: Json) -> Json:
    """The object with the defaults of its kind; it has its uid already."""
    if kind in _DEFAULTS:
        _DEFAULTS[kind](obj)
    return obj


def _pod_spec(spec: Json, *, restart: str = "Always") -> None:
    spec.setdefault("restartPolicy", restart)
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        image = str(container.get("image", "")).rpartition("/")[2]
        latest = "@" not in image and image.partition(":")[2] in ("", "latest")
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        for port in container.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _pod(pod: Json) -> None:
    spec = pod["spec"]
    _pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("serviceAccountName", "default")
    pod.setdefault("status", {"phase": "Pending", "qosClass": "BestEffort"})


def _job_spec(spec: Json) -> None:
    spec.setdefault("completionMode", "NonIndexed")
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    unlimited = "backoffLimitPerIndex" in spec
    spec.setdefault("backoffLimit", 2147483647 if unlimited else 6)
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    strict = "podFailurePolicy" in spec
    spec.setdefault("podReplacementPolicy", "Failed" if strict else "TerminatingOrFailed")
    _pod_spec(spec["template"].setdefault("spec", {}), restart="Always")


def _job(job: Json) -> None:
    metadata, spec = job["metadata"], job["spec"]
    _job_spec(spec)
    ours = {"batch.kubernetes.io/controller-uid": metadata["uid"], "batch.kubernetes.io/job-name": metadata["name"]}
    ours |= {"controller-uid": metadata["uid"], "job-name": metadata["name"]}
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = (template.get("labels") or {}) | ours
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}
    job.setdefault("status", {})


def _cron_job(cron: Json) -> None:
    spec = cron["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    _pod_spec(spec["jobTemplate"]["spec"]["template"]["spec"])


def _service(service: Json) -> None:
    spec = service["spec"]
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("clusterIP", "10.96.0.100")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port["port"])
    service.setdefault("status", {"loadBalancer": {}})


def _claim(claim: Json) -> None:
    claim["spec"].setdefault("volumeMode", "Filesystem")
    claim.setdefault("status", {"phase": "Pending"})


def _namespace(namespace: Json) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = (metadata.get("labels") or {}) | {"kubernetes.io/metadata.name": metadata["name"]}
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace.setdefault("status", {"phase": "Active"})


def _secret(secret: Json) -> None:
    secret.setdefault("type", "Opaque")


_DEFAULTS: dict[str, Callable[[Json], None]] = {
    "Pod": _pod, "Job": _job, "CronJob": _cron_job, "Service": _service, "PersistentVolumeClaim": _claim,
    "Namespace": _namespace, "Secret": _secret,
}  # fmt: skip
