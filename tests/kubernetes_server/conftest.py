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


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    return cluster.namespace
