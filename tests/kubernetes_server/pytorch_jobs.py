"""The pods of a PyTorchJob as the training operator makes and counts them. Pure functions."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]
GROUP, LABEL = "kubeflow.org", "training.kubeflow.org"
MASTER, WORKER, CONTAINER = "Master", "Worker", "pytorch"
PORT_NAME, PORT = "pytorchjob-port", 23456


def replicas_of(job: Json) -> dict[str, Json]:
    """The replicas by their type, with the defaults."""
    found = job["spec"]["pytorchReplicaSpecs"]
    return {
        name: {"replicas": 1, "restartPolicy": "OnFailure", **found[name]} for name in (MASTER, WORKER) if name in found
    }


def name_of(job: Json, replica: str, index: int) -> str:
    """The name of a pod, and of its service."""
    return f"{job['metadata']['name']}-{replica.lower()}-{index}"


def labels_of(job: Json, replica: str = "", index: int = 0) -> dict[str, str]:
    """The labels of all pods of a job, or of one of them."""
    found = {f"{LABEL}/operator-name": "pytorchjob-controller", f"{LABEL}/job-name": job["metadata"]["name"]}
    if replica:
        found |= {f"{LABEL}/replica-type": replica.lower(), f"{LABEL}/replica-index": str(index)}
    return found


def owner_of(job: Json) -> Json:
    metadata = job["metadata"]
    return {"apiVersion": f"{GROUP}/v1", "kind": "PyTorchJob", "name": metadata["name"], "uid": metadata["uid"],
            "controller": True, "blockOwnerDeletion": True}  # fmt: skip


def new_service(job: Json, replica: str, index: int) -> Json:
    """The service of one pod. Unlike others it knows a pod only once that is ready."""
    labels = labels_of(job, replica, index)
    metadata = {"name": name_of(job, replica, index), "labels": labels, "ownerReferences": [owner_of(job)]}
    ports = [{"name": PORT_NAME, "port": _port(job, replica)}]
    return {"metadata": metadata, "spec": {"clusterIP": "None", "selector": labels, "ports": ports}}


def new_pod(job: Json, replica: str, index: int) -> Json:
    """The pod of one replica. The init container is left out by which a Worker waits for its Master."""
    wanted = replicas_of(job)[replica]
    pod = copy.deepcopy(wanted["template"])
    metadata, spec = pod.get("metadata") or {}, pod["spec"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels_of(job, replica, index)}
    if replica == MASTER or (MASTER not in replicas_of(job) and index == 0):
        metadata["labels"][f"{LABEL}/job-role"] = "master"
    metadata |= {"name": name_of(job, replica, index), "ownerReferences": [owner_of(job)]}
    policy = wanted["restartPolicy"]
    spec["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    for container in spec["containers"]:
        own = [{"name": name, "value": value} for name, value in _variables(job, replica, index)]
        container["env"] = [*(container.get("env") or ()), *own]
    return {"metadata": metadata, "spec": spec}


def _variables(job: Json, replica: str, index: int) -> Iterator[tuple[str, str]]:
    spec, replicas = job["spec"], replicas_of(job)
    total = sum(each["replicas"] for each in replicas.values())
    per_node, elastic = spec.get("nprocPerNode"), spec.get("elasticPolicy")
    yield "PYTHONUNBUFFERED", "1"
    if MASTER in replicas:
        port, rank = str(_port(job, MASTER)), index + (replica == WORKER)
        for name, value in (("PORT", port), ("ADDR", name_of(job, MASTER, 0))):
            yield f"MASTER_{name}", value
            yield f"PET_MASTER_{name}", value
        yield "WORLD_SIZE", str(total * (int(per_node) if (per_node or "").isdigit() else 1))
        yield "RANK", str(rank)
        yield "PET_NODE_RANK", str(rank)
    if elastic is None or "nProcPerNode" not in elastic:
        yield "PET_NPROC_PER_NODE", per_node or "auto"
    if elastic is None:
        yield "PET_NNODES", str(total)
        return
    workers = replicas[WORKER]["replicas"]
    least = elastic.get("minReplicas", elastic.get("maxReplicas", workers))
    host = elastic.get("rdzvHost", name_of(job, WORKER, 0))
    yield "PET_RDZV_ENDPOINT", f"{host}:{elastic.get('rdzvPort', _port(job, WORKER))}"
    yield "PET_RDZV_BACKEND", elastic.get("rdzvBackend", "c10d")
    yield "PET_NNODES", f"{least}:{elastic.get('maxReplicas', least)}"
    named = (("maxRestarts", "MAX_RESTARTS"), ("nProcPerNode", "NPROC_PER_NODE"), ("rdzvId", "RDZV_ID"))
    for key, name in named:
        if key in elastic:
            yield f"PET_{name}", str(elastic[key])
    if conf := elastic.get("rdzvConf"):
        yield "PET_RDZV_CONF", ",".join(f"{one['key']}={one['value']}" for one in conf)


def _port(job: Json, replica: str) -> int:
    containers = replicas_of(job)[replica]["template"]["spec"]["containers"]
    ports = [port for one in containers if one["name"] == CONTAINER for port in one.get("ports") or ()]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == PORT_NAME), PORT)


def code_of(pod: Json) -> int:
    """The exit code of the container that trains; 0xBEEF while it has none."""
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (one.get("state") or {}).get("terminated")
        if one["name"] == CONTAINER and ended:
            return int(ended["exitCode"])
    return 0xBEEF


def is_restarted(policy: str, code: int) -> bool:
    """Whether a failed pod is made again."""
    return policy in ("OnFailure", "Always") or (policy == "ExitCode" and code >= 128)


def restarts(pods: Iterable[Json]) -> int:
    """How often the containers of pods that run have restarted."""
    statuses = [pod.get("status") or {} for pod in pods]
    return sum(
        one.get("restartCount", 0)
        for status in statuses
        if status.get("phase") == "Running"
        for group in ("initContainerStatuses", "containerStatuses")
        for one in status.get(group) or ()
    )
