"""Manifests of jobs as a team has them: an Indexed Job, and the same in a JobSet."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes.pod_additions import PodAdditions
from chaoskit.nodes import ClusterPlace

IMAGE, OUT = "registry/trainer:7", Path("/ckpt/store/runs/r1/out")
WORDS = ["torchrun", "--nnodes=2", "--rdzv-endpoint={job}-0.{service}:29400", "train.py", "--out", "{out}"]


def a_job(path: str = "", value: Any = None) -> dict[str, Any]:
    """The manifest with this value at a path such as `spec.completions`, or without it if the value is None."""
    container = {"name": "trainer", "image": IMAGE, "command": WORDS[:1], "args": WORDS[1:]}
    made: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "nightly-train", "labels": {"team": "vision"}},
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    return changed(made, path, value)


def with_scratch(manifest: dict[str, Any]) -> dict[str, Any]:
    """A copy of a Job whose pods have a volume `scratch`, for which the cluster makes a claim of its own for each."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    template = {"metadata": {"labels": {"team": "vision"}}, "spec": spec}
    made = copy.deepcopy(manifest)
    pod = made["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    return made


def a_job_set(path: str = "", value: Any = None) -> dict[str, Any]:
    """A JobSet of that Job, called `node`, with this value at a path."""
    job = {"name": "node", "template": {"spec": a_job()["spec"]}}
    made: dict[str, Any] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "nightly-train", "labels": {"team": "vision"}},
        "spec": {"replicatedJobs": [job], "failurePolicy": {"maxRestarts": 2}},
    }
    words = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["args"]
    words[1] = "--rdzv-endpoint={job}-node-0-0.{service}:29400"
    return changed(made, path, value)


def a_pytorch_job(path: str = "", value: Any = None) -> dict[str, Any]:
    """A PyTorchJob of a Master and a Worker, with this value at a path."""
    words = ["--rdzv-backend=c10d", "--rdzv-endpoint={job}-master-0:29400", "train.py", "--out", "{out}"]
    container = {"name": "pytorch", "image": IMAGE, "command": ["torchrun"], "args": words}
    replica = {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    made: dict[str, Any] = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "nightly-train", "labels": {"team": "vision"}},
        "spec": {
            "nprocPerNode": "1",
            "pytorchReplicaSpecs": {name: copy.deepcopy(replica) for name in ("Master", "Worker")},
        },
    }
    return changed(made, path, value)


def an_elastic_job(path: str = "", value: Any = None) -> dict[str, Any]:
    """A PyTorchJob of two Workers, which the operator tells where they meet, with this value at a path."""
    made = a_pytorch_job("spec.pytorchReplicaSpecs.Master")
    workers = made["spec"]["pytorchReplicaSpecs"]["Worker"]
    workers["replicas"] = 2
    workers["template"]["spec"]["containers"][0]["args"] = ["train.py", "--out", "{out}"]
    made["spec"]["elasticPolicy"] = {"maxRestarts": 3}
    return changed(made, path, value)


def a_runtime(name: str = "torch", *, job: Any = None, **spec: Any) -> dict[str, Any]:
    """A TrainingRuntime as Kubeflow Trainer ships one; `spec` is of its JobSet, and `job` of the Job that trains."""
    container = {"name": "node", "image": "pytorch/pytorch:2"}
    template = {"spec": {"template": {"spec": {"containers": [container]}}, **(job or {})}}
    given = {name: value for name, value in spec.items() if value is not None}
    template["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}], **given}},
        },
    }


def a_train_job(path: str = "", value: Any = None) -> dict[str, Any]:
    """A TrainJob of that runtime, with this value at a path."""
    words = ["--rdzv-backend=c10d", "--rdzv-endpoint={job}-node-0-0.{service}:29400", "train.py", "--out", "{out}"]
    made: dict[str, Any] = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "nightly-train", "labels": {"team": "vision"}},
        "spec": {
            "runtimeRef": {"kind": "TrainingRuntime", "name": "torch"},
            "trainer": {"image": IMAGE, "command": ["torchrun"], "args": words, "numNodes": 2, "numProcPerNode": 1},
        },
    }
    return changed(made, path, value)


def added() -> PodAdditions:
    """What chaoskit adds to the pods of a run called `r1`, whose `{out}` is `OUT`."""
    return PodAdditions(
        place=ClusterPlace(namespace="staging", claim="runs", path="/ckpt"), service="chaoskit-r1", python="python3",
        package=Path("/ckpt/store/code/chaoskit"), address="tcp://10.0.0.1:5", run_dir=Path("/ckpt/store/runs/r1"),
        store=Path("/ckpt/store"), variables={"LENT": "x"},
    )  # fmt: skip


def changed(made: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a manifest with this value at a path, or without it if the value is None."""
    made = copy.deepcopy(made)
    if path:
        part, *names = made, *path.split(".")
        *above, last = [int(name) if name.isdecimal() else name for name in names]
        for name in above:
            part = part[name]
        if value is None:
            del part[last]
        else:
            part[last] = value
    return made
