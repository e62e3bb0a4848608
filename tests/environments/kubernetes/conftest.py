"""A connection to the cluster of a test, and pods of somebody else in its namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaoskit.environments.kubernetes import kubeconfig
from chaoskit.environments.kubernetes.connection import ClusterConnection
from tests.kubernetes_server.fixtures import Cluster


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[ClusterConnection]:
    made = ClusterConnection(kubeconfig.of_context(cluster.context, file=str(cluster.kubeconfig)))
    yield made
    made.close()
