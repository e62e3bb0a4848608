"""Clients of the official library for the tests of the server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes import client, config

from tests.kubernetes_server.fixtures import REAL, Cluster, RealCluster

Where = dict[str, str]


@dataclass(frozen=True)
class Pods:
    """The pods of a test, in a cluster that runs them."""

    core: client.CoreV1Api
    namespace: str
    image: str
    until: Callable[..., None]

    def make(self, name: str, script: str, *, spec: Any = None, container: Any = None, **metadata: Any) -> client.V1Pod:
        """Make a pod that runs a script of the shell."""
        main = {"name": "main", "image": self.image, "command": ["sh", "-c", script]} | (container or {})
        body = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 20, "containers": [main]} | (spec or {})
        return self.core.create_namespaced_pod(self.namespace, {"metadata": {"name": name, **metadata}, "spec": body})

    def read(self, name: str) -> client.V1Pod:
        return self.core.read_namespaced_pod(name, self.namespace)

    def wait(self, name: str, condition: Callable[[client.V1Pod], object]) -> client.V1Pod:
        """Wait until something holds of a pod; gives the pod as it was then."""
        seen: list[client.V1Pod] = []

        def holds() -> bool:
            seen[:] = [self.read(name)]
            return bool(condition(seen[0]))

        self.until(holds, timeout=60)
        return seen[0]

    def phase(self, name: str, phase: str) -> client.V1Pod:
        """Wait until a pod has a phase; fails as soon as it has ended otherwise."""
        ended = ("Succeeded", "Failed")
        found = self.wait(name, lambda pod: pod.status.phase in (phase, *ended))
        assert found.status.phase == phase, found.status
        return found

    def state(self, name: str) -> client.V1ContainerState:
        """The state of a pod's only container; nothing where it has none yet."""
        statuses = self.read(name).status.container_statuses
        return statuses[0].state if statuses else client.V1ContainerState()

    def waits(self, name: str, reason: str) -> None:
        """Wait until the container of a pod waits for a reason."""
        self.until(lambda: (state := self.state(name).waiting) and state.reason == reason, timeout=60)

    def log(self, name: str, **options: Any) -> str:
        return str(self.core.read_namespaced_pod_log(name, self.namespace, **options))

    def are_gone(self) -> bool:
        return not self.core.list_namespaced_pod(self.namespace).items

    def events(self, name: str) -> dict[str, str]:
        """The last message of each reason in the events of an object."""
        found = self.core.list_namespaced_event(self.namespace).items
        return {one.reason: one.message for one in found if one.involved_object.name == name}


@pytest.fixture
def pods(real_cluster: RealCluster, core: client.CoreV1Api, until: Callable[..., None]) -> Pods:
    return Pods(core, real_cluster.namespace, real_cluster.image, until)


@pytest.fixture
def api(cluster: Cluster) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(cluster.kubeconfig), context=cluster.context) as made:
        yield made


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


@pytest.fixture
def custom(api: client.ApiClient) -> client.CustomObjectsApi:
    return client.CustomObjectsApi(api)


@pytest.fixture
def where(request: pytest.FixtureRequest, custom: client.CustomObjectsApi, namespace: str) -> Callable[..., Where]:
    """Where custom resources lie, for tests of definitions whose controllers do not run.

    Skips on a cluster that does not know them; on ours with --chaos-require, fails.
    """

    def look(group: str, version: str, plural: str) -> Where:
        if not os.environ.get(REAL):
            request.getfixturevalue("crds")
        try:
            custom.list_namespaced_custom_object(group, version, namespace, plural, limit=1)
        except client.ApiException as error:
            if error.status != 404:
                raise
            pytest.skip(f"this cluster has no {plural}.{group}")
        return {"group": group, "version": version, "namespace": namespace, "plural": plural}

    return look


@pytest.fixture
def podchaos(where: Callable[..., Where]) -> Where:
    return where("chaos-mesh.org", "v1alpha1", "podchaos")


@pytest.fixture
def jobsets(where: Callable[..., Where]) -> Where:
    return where("jobset.x-k8s.io", "v1alpha2", "jobsets")


@pytest.fixture
def trainjobs(where: Callable[..., Where]) -> Where:
    return where("trainer.kubeflow.org", "v1alpha1", "trainjobs")


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    return cluster.namespace
