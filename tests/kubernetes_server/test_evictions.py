"""An eviction deletes a pod with its grace, unless a budget is against it, and says so on the pod."""

from __future__ import annotations

import pytest
from kubernetes import client

from tests.kubernetes_server.expect import refused

READY = {"type": "Ready", "status": "True"}


@pytest.fixture
def running(api_server, namespace):
    """Makes a pod that runs, as far as its object says."""

    def make(name, **labels):
        spec = {
            "containers": [{"name": "main", "image": "i"}],
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 7,
        }
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        return api_server.put(
            "pods", {**body, "status": {"phase": "Running", "conditions": [READY]}}, namespace=namespace
        )

    return make


def evict(core, namespace, name, **options):
    body = {"metadata": {"name": name, "namespace": namespace}, "deleteOptions": options}
    return core.create_namespaced_pod_eviction(name, namespace, body)


def test_a_running_pod_has_its_grace_and_a_condition(core, namespace, running):
    running("one")
    evict(core, namespace, "one")
    found = core.read_namespaced_pod("one", namespace)
    assert found.metadata.deletion_timestamp and found.metadata.deletion_grace_period_seconds == 7
    (condition,) = [each for each in found.status.conditions if each.type == "DisruptionTarget"]
    assert (condition.status, condition.reason) == ("True", "EvictionByEvictionAPI")
    assert [each.status for each in found.status.conditions if each.type == "Ready"] == ["True"]


def test_only_the_very_pod_is_evicted(core, namespace, running):
    running("one")
    with refused(409, "Conflict", "UID in precondition: other"):
        evict(core, namespace, "one", preconditions={"uid": "other"})
    with refused(404, "NotFound"):
        evict(core, namespace, "two")
    found = core.read_namespaced_pod("one", namespace)
    assert found.metadata.deletion_timestamp is None
    assert [each.type for each in found.status.conditions] == ["Ready"]


@pytest.mark.parametrize("budget", [{"minAvailable": 2}, {"maxUnavailable": 0}], ids=str)
def test_a_budget_is_against_it(api, core, namespace, running, budget):
    running("one", app="a")
    running("two", app="a")
    running("other", app="b")
    body = {"metadata": {"name": "keep"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, **budget}}
    client.PolicyV1Api(api).create_namespaced_pod_disruption_budget(namespace, body)
    with refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget."):
        evict(core, namespace, "one")
    found = core.read_namespaced_pod("one", namespace)
    assert found.metadata.deletion_timestamp is None
    assert [each.type for each in found.status.conditions] == ["Ready"]
    evict(core, namespace, "other")
    running("three", app="a")
    client.PolicyV1Api(api).delete_namespaced_pod_disruption_budget("keep", namespace)
    evict(core, namespace, "one")
    assert core.read_namespaced_pod("one", namespace).metadata.deletion_timestamp


def test_a_budget_allows_as_many_as_it_says(api, core, namespace, running):
    for name in ("one", "two"):
        running(name, app="a")
    body = {"metadata": {"name": "keep"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}}
    client.PolicyV1Api(api).create_namespaced_pod_disruption_budget(namespace, body)
    evict(core, namespace, "one")
    with refused(429, "TooManyRequests"):
        evict(core, namespace, "two")
