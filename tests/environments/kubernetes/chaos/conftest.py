"""A cluster with a controller of Chaos Mesh, and a run with pods in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.objects import RunObjects
from tests.environments.kubernetes import cluster_objects as some
from tests.kubernetes_server.chaos_controller import ChaosController
from tests.kubernetes_server.fixtures import Cluster
from tests.kubernetes_server.server import KubernetesServer


@pytest.fixture
def mesh(api_server: KubernetesServer, crds: Any) -> Iterator[ChaosController]:
    """The controller; a test sets its hooks."""
    made = ChaosController(api_server).start()
    yield made
    made.stop()


@pytest.fixture
def run(connection: ClusterConnection, cluster: Cluster, tmp_path: Path) -> RunObjects:
    return RunObjects(connection, namespace=cluster.namespace, run_id="r1", run_dir=tmp_path)


@pytest.fixture
def running(api_server: KubernetesServer, run: RunObjects) -> Callable[..., None]:
    """Make a pod of the run that runs, as a kubelet would have it."""

    def make(node: int, *, phase: str = "Running", ip: str = "") -> None:
        name = f"trainer-{node}"
        run.create(PODS, some.pod(name), role="trainer", node=node)
        resource = api_server.catalogue.named("pods")
        pod = api_server.store.get(resource, run.identity.namespace, name)
        assert pod is not None
        status = {"phase": phase, "podIP": ip or f"10.1.0.{node + 1}"}
        api_server.store.put(resource, pod | {"status": status})

    return make
