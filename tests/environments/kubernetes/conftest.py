"""A connection to the cluster of a test, and a place for a run in pods."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaoskit.environments.environment import RunSpec
from chaoskit.environments.kubernetes import kubeconfig
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.nodes import ClusterPlace, Nodes
from tests.docker_images import images
from tests.environments.kubernetes.a_job import a_job
from tests.kubernetes_server.fixtures import Cluster, Machines

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
    return [one.metadata.name for one in found if one.metadata.name.startswith("chaoskit")]


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
