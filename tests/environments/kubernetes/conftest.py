"""A connection to the cluster of a test, and a place for a run in pods."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaoskit.environments.environment import RunSpec
from chaoskit.environments.kubernetes import kubeconfig
from chaoskit.environments.kubernetes.api_kinds import FURTHER_JOBS
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.nodes import ClusterPlace, Nodes
from tests.docker_images import images
from tests.environments.kubernetes.a_job import (
    a_job,
    a_job_set,
    a_runtime,
    a_train_job,
    an_elastic_job,
    with_scratch,
)
from tests.kubernetes_server.fixtures import Cluster, Machines
from tests.kubernetes_server.server import KubernetesServer

STUB = Path(__file__).parents[1] / "stub_rank.py"


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[ClusterConnection]:
    made = ClusterConnection(kubeconfig.of_context(cluster.context, file=str(cluster.kubeconfig)))
    yield made
    made.close()


@pytest.fixture
def cluster_place(machines: Machines) -> ClusterPlace:
    """Where pods may be made."""
    return ClusterPlace(
        namespace=machines.cluster.namespace,
        context=machines.cluster.context,
        kubeconfig=str(machines.cluster.kubeconfig),
        claim="runs",
        path=str(machines.volume),
        address=machines.address,
    )


@pytest.fixture
def pods_place(
    machines: Machines, cluster_place: ClusterPlace, run_id: str, connection: ClusterConnection
) -> Iterator[RunSpec]:
    """Where a gated run in pods may happen; nothing of it may be left in the cluster."""
    store = machines.volume / "store"
    run_dir = store / "runs" / "one"
    for name in ("events", "out"):
        (run_dir / name).mkdir(parents=True)
    shutil.copy(STUB, store / STUB.name)
    yield RunSpec(
        run_dir=run_dir, out=run_dir / "out", cwd=run_dir, run_id=run_id, gated=True, image=images.image(),
        program="python3", store=store, cluster=cluster_place,
    )  # fmt: skip
    assert left(connection, machines.cluster.namespace) == []


def left(connection: ClusterConnection, namespace: str) -> list[str]:
    """The objects of chaoskit that a namespace has, of whichever run."""
    from kubernetes import client

    core = client.CoreV1Api(connection.address.client)
    found = [
        *core.list_namespaced_pod(namespace).items,
        *core.list_namespaced_service(namespace).items,
        *core.list_namespaced_config_map(namespace).items,
        *client.BatchV1Api(connection.address.client).list_namespaced_job(namespace).items,
    ]
    names = [str(one.metadata.name) for one in found]
    for kind in FURTHER_JOBS:
        with suppress(ClusterError):  # a cluster without that kind
            path = ApiTarget(kind, namespace)
            names += [str(one["metadata"]["name"]) for one in connection.page(path, {})["items"]]
    return [name for name in names if name.startswith("chaoskit")]


@pytest.fixture
def stub(machines: Machines) -> Callable[[int, int], list[str]]:
    """The command of a process that stands in for a rank and takes so many steps."""

    def command(number: int, steps: int) -> list[str]:
        return ["python3", "-I", "-S", str(machines.volume / "store" / STUB.name), str(number), str(steps)]

    return command


@pytest.fixture
def job_place(pods_place: RunSpec, machines: Machines) -> Callable[..., RunSpec]:
    """Makes the place of a run whose Job has two pods, each with a stub of a rank that takes so many steps."""
    machines.kubelet.jobs.back_off = 0.5

    def make(steps: int = 9, **spec: Any) -> RunSpec:
        stub = str(pods_place.store / STUB.name)
        manifest = a_job()
        manifest["spec"] |= spec
        manifest["spec"]["template"]["spec"]["containers"] = [
            {
                "name": "trainer",
                "image": pods_place.image,
                "command": ["python3", "-I", "-S"],
                "args": [stub, "$(JOB_COMPLETION_INDEX)", str(steps)],
                "env": [{"name": "CKPT", "value": "{out}"}],
            }
        ]
        place = replace(pods_place.cluster, job_template=manifest)
        return replace(pods_place, cluster=place, nodes=Nodes(2, 2))

    return make


@pytest.fixture
def scratch_place(job_place: Callable[..., RunSpec]) -> RunSpec:
    """The place of a run whose Job has two such pods, each of them with a volume claim of its own."""
    made = job_place()
    assert made.cluster is not None
    return replace(made, cluster=replace(made.cluster, job_template=with_scratch(made.cluster.job_template)))


@pytest.fixture
def job_set_place(job_place: Callable[..., RunSpec], crds: Any) -> Callable[..., RunSpec]:
    """Makes the place of a run whose JobSet has that Job; `spec` is of the JobSet, `job` of its Job."""

    def make(steps: int = 9, *, job: Mapping[str, Any] | None = None, **spec: Any) -> RunSpec:
        made = job_place(steps, **(job or {}))
        assert made.cluster is not None
        manifest = a_job_set()
        manifest["spec"] |= spec
        manifest["spec"]["replicatedJobs"][0]["template"]["spec"] = made.cluster.job_template["spec"]
        return replace(made, cluster=replace(made.cluster, job_template=manifest))

    return make


@pytest.fixture
def pytorch_job_place(job_place: Callable[..., RunSpec], machines: Machines, crds: Any) -> Callable[..., RunSpec]:
    """Makes the place of a run whose PyTorchJob has two Workers with such stubs; `spec` is of the PyTorchJob."""
    machines.kubelet.back_off = 0.5

    def make(steps: int = 9, *, policy: str = "OnFailure", **spec: Any) -> RunSpec:
        made = job_place(steps)
        assert made.cluster is not None
        (container,) = made.cluster.job_template["spec"]["template"]["spec"]["containers"]
        index = {"fieldRef": {"fieldPath": "metadata.labels['training.kubeflow.org/replica-index']"}}
        container["env"].append({"name": "JOB_COMPLETION_INDEX", "valueFrom": index})
        manifest = an_elastic_job()
        manifest["spec"] |= spec
        workers = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]
        workers["restartPolicy"] = policy
        workers["template"]["spec"]["containers"] = [{**container, "name": "pytorch"}]
        return replace(made, cluster=replace(made.cluster, job_template=manifest))

    return make


@pytest.fixture
def train_job_place(
    job_place: Callable[..., RunSpec], machines: Machines, api_server: KubernetesServer, crds: Any
) -> Callable[..., RunSpec]:
    """Makes the place of a run whose TrainJob has two nodes with such stubs; `job` is of the Job of its runtime, and
    `spec` of the JobSet of that."""
    machines.kubelet.back_off = 0.5

    def make(steps: int = 9, *, job: Mapping[str, Any] | None = None, **spec: Any) -> RunSpec:
        made = job_place(steps)
        assert made.cluster is not None
        runtime = a_runtime(job=job, **spec)
        api_server.put("trainingruntimes", runtime, group="trainer.kubeflow.org", namespace=made.cluster.namespace)
        (container,) = made.cluster.job_template["spec"]["template"]["spec"]["containers"]
        manifest = a_train_job()
        manifest["spec"]["trainer"] |= {name: container[name] for name in ("image", "command", "args", "env")}
        return replace(made, cluster=replace(made.cluster, job_template=manifest))

    return make
