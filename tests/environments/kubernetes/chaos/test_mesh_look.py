"""Clusters in which faults of Chaos Mesh are not to be had: the reason, and what to do."""

from __future__ import annotations

import pytest

from chaoskit.capabilities import CanLoseNodes, CanPartition
from chaoskit.environments.kubernetes import cluster_needs
from chaoskit.environments.kubernetes.api_kinds import CONFIG_MAPS, DNS_CHAOS, NETWORK_CHAOS
from chaoskit.environments.kubernetes.chaos import mesh_look
from chaoskit.environments.kubernetes.connection import ApiTarget
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.job import Job
from chaoskit.nodes import ClusterPlace
from tests.environments.kubernetes.staged_cluster import StagedCluster


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(mesh_look, "TAKEN_UP", 1.0)


def left(connection, namespace, kind=NETWORK_CHAOS):
    return connection.page(ApiTarget(kind, namespace), {})["items"]


def looks(connection, namespace):
    return [one for one in left(connection, namespace, CONFIG_MAPS) if "mesh" in one["metadata"]["name"]]


def test_where_chaos_mesh_is_nothing_is_lacking_and_nothing_is_left(mesh, connection, cluster):
    for kind in (NETWORK_CHAOS, DNS_CHAOS):
        assert mesh_look.why_not(connection, cluster.namespace, kind) is None
        assert left(connection, cluster.namespace, kind) == []
    assert looks(connection, cluster.namespace) == []


def test_without_its_kinds():
    with StagedCluster(kinds=("StressChaos",)).serve() as script:
        why = mesh_look.why_not(script.connection(patience=0), "staging", NETWORK_CHAOS)
    assert why == (
        "it needs NetworkChaos of Chaos Mesh, which this cluster does not have: install Chaos Mesh 2.x "
        "(https://chaos-mesh.org/docs)"
    )


def test_without_permissions():
    def allows(group, resource, verb):
        return (resource, verb) not in {("networkchaos", "create"), ("networkchaos", "patch")}

    with StagedCluster(allows=allows).serve() as script:
        why = mesh_look.why_not(script.connection(patience=0), "staging", NETWORK_CHAOS)
    rule = '{apiGroups: ["chaos-mesh.org"], resources: [networkchaos], verbs: [create, patch]}'
    assert why is not None and why.startswith("it needs Chaos Mesh, and permissions are missing in namespace staging")
    assert rule.replace('"', "") in why.replace('"', "")


def test_a_controller_that_does_nothing(mesh, connection, cluster):
    mesh.is_idle = True
    why = mesh_look.why_not(connection, cluster.namespace, NETWORK_CHAOS)
    assert why is not None and "has not looked at a new NetworkChaos within 1 s: it is down, or" in why
    assert left(connection, cluster.namespace) == [] == looks(connection, cluster.namespace)


def test_a_webhook_that_is_down(mesh, connection, cluster):
    connection.patience = 1.0
    with mesh.down():
        why = mesh_look.why_not(connection, cluster.namespace, NETWORK_CHAOS)
    assert why is not None and "takes no NetworkChaos" in why and "controller of Chaos Mesh is down" in why


def test_it_is_looked_at_once_and_only_for_what_needs_it(monkeypatch):
    place = ClusterPlace(namespace="staging", claim="runs", path="/mnt", context="staging")
    job = Job.from_command(["torchrun", "train.py", "--out", "{out}"], cluster=place, image="trainer:1")
    asked = []
    monkeypatch.setattr(cluster_needs, "connection_to", lambda place: "connection")
    monkeypatch.setattr(mesh_look, "why_not", lambda *where: asked.append(where) or "it needs Chaos Mesh")
    assert KubernetesEnvironment.lacks(CanLoseNodes, job) is None
    assert KubernetesEnvironment.lacks(CanPartition, None) is None and not asked
    assert KubernetesEnvironment.lacks(CanPartition, job) == "it needs Chaos Mesh"
    assert asked == [("connection", "staging", NETWORK_CHAOS)]
