"""Clients of the official library for the tests of the server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client, config

from tests.kubernetes_server.fixtures import Cluster


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


def _where(custom: client.CustomObjectsApi, namespace: str, group: str, version: str, plural: str) -> dict[str, str]:
    """Where custom resources lie; skips on a cluster that does not know them."""
    try:
        custom.list_namespaced_custom_object(group, version, namespace, plural, limit=1)
    except client.ApiException as error:
        if error.status != 404:
            raise
        pytest.skip(f"this cluster has no {plural}.{group}")
    return {"group": group, "version": version, "namespace": namespace, "plural": plural}


@pytest.fixture
def podchaos(custom: client.CustomObjectsApi, namespace: str) -> dict[str, str]:
    return _where(custom, namespace, "chaos-mesh.org", "v1alpha1", "podchaos")


@pytest.fixture
def jobsets(custom: client.CustomObjectsApi, namespace: str) -> dict[str, str]:
    return _where(custom, namespace, "jobset.x-k8s.io", "v1alpha2", "jobsets")


@pytest.fixture
def trainjobs(custom: client.CustomObjectsApi, namespace: str) -> dict[str, str]:
    return _where(custom, namespace, "trainer.kubeflow.org", "v1alpha1", "trainjobs")


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    return cluster.namespace
