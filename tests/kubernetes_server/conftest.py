"""Clients of the official library for the tests of the server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from kubernetes import client, config

from tests.kubernetes_server.fixtures import REAL, Cluster

Where = dict[str, str]


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
