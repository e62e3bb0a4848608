"""What guards of a cluster and Chaos Mesh say before a run: refusals by name, a controller that is down, old fields."""

from __future__ import annotations

import copy
import re

import pytest

from chaoskit.environments.kubernetes import cluster_check
from chaoskit.nodes import ClusterPlace
from tests.kubernetes_server.admission import absent_webhook, policy, webhook
from tests.kubernetes_server.chaos_controller import ChaosController
from tests.kubernetes_server.objects import claim

CONTROLLER = "controller of Chaos Mesh"


@pytest.fixture
def examined(api_server, cluster, connection):
    """Checks the cluster; nothing may be made."""

    def examine(**more):
        before = api_server.store.version
        place = ClusterPlace(namespace=cluster.namespace, claim="runs", path="/runs")
        found = {one.what: one for one in cluster_check.examine(connection, place, **more)}
        assert api_server.store.version == before
        return found

    return examine


@pytest.mark.usefixtures("crds")
def test_a_cluster_without_guards(examined):
    found = examined()
    assert [found[f"admission of {kind}"].good for kind in ("configmaps", "services", "pods")] == [True] * 3
    assert found["admission guards"].found == "none" and found["admission of faults"].good


def test_guards_are_named_where_the_user_may_see_them(examined, api_server):
    spec = {"metadata": {"name": "no-latest"}, "spec": {"failurePolicy": "Fail"}}
    api_server.put("validatingadmissionpolicies", spec, group="admissionregistration.k8s.io")
    assert examined()["admission guards"].found == "validatingadmissionpolicies no-latest"


@pytest.mark.parametrize(
    ("plural", "hook", "said"),
    [
        ("services", webhook("guard.example.com", "services", lambda one: "no services here"),
         "refused by the webhook 'guard.example.com': .*: no services here"),
        ("configmaps", absent_webhook("lost.example.com", "configmaps"),
         "refused by the webhook, which does not answer, 'lost.example.com'"),
        ("pods", policy("no-root", "", lambda one: "root is forbidden" if one.resource.plural == "pods" else None),
         "refused by the ValidatingAdmissionPolicy 'no-root': .*: root is forbidden"),
    ],
)  # fmt: skip
def test_a_refusal_is_told_with_its_sentence_and_the_name_of_who_refuses(
    examined, api_server, connection, monkeypatch, plural, hook, said
):
    connection.patience = 0.0
    api_server.api.admission.hooks.append(hook)
    one = examined()[f"admission of {plural}"]
    assert not one.good and one.remedy
    assert re.match(said, one.found), one.found
    assert one.needed is (plural != "pods")
    if plural == "pods":
        assert "check again with --image" in one.remedy and "with the image registry.example/trainer:1" in one.found


def test_a_quota_that_wants_resources(examined, api_server, cluster):
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"limits.memory": "1Gi"}}}
    api_server.put("resourcequotas", quota, namespace=cluster.namespace)
    one = examined()["admission of pods"]
    assert "refused by the quota 'small'" in one.found and "resources in [tool.chaoskit.kubernetes]" in one.remedy


@pytest.mark.usefixtures("crds")
def test_the_controller_of_chaos_mesh_is_down(examined, api_server, connection):
    connection.patience = 0.0
    controller = ChaosController(api_server).start()
    try:
        assert CONTROLLER not in examined() and examined()["admission of faults"].good
        with controller.down():
            found = examined()
            assert found[CONTROLLER].found.startswith("down: ") and not found[CONTROLLER].needed
            assert "kubectl get pods --namespace chaos-mesh" in found[CONTROLLER].remedy
    finally:
        controller.stop()


@pytest.mark.parametrize(
    ("replicas", "ready", "good", "said"),
    [(3, 3, True, "3 of 3 replicas are ready"), (3, 0, False, "0 of 3"), (0, 0, False, "paused: its deployment is")],
)
@pytest.mark.usefixtures("crds")
def test_the_deployment_of_the_controller_where_it_can_be_seen(examined, api_server, replicas, ready, good, said):
    container = {"name": "chaos-mesh", "image": "ghcr.io/chaos-mesh/chaos-mesh:v2.8.0"}
    labels = {"app": "chaos-mesh"}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    api_server.put("namespaces", {"metadata": {"name": "chaos-mesh"}})
    deployment = {"metadata": {"name": "chaos-controller-manager"}, "spec": spec, "status": {"readyReplicas": ready}}
    api_server.put("deployments", deployment, group="apps", namespace="chaos-mesh")
    found = examined()
    assert found[CONTROLLER].good is good and found[CONTROLLER].found.startswith(said)
    assert found["Chaos Mesh"].found.startswith("release v2.8.0, serves v1alpha1: ")


def test_definitions_of_an_older_version(examined, api_server, crds):
    (definition,) = [one for one in crds if one["spec"]["names"]["kind"] == "StressChaos"]
    older = copy.deepcopy(definition)
    (version,) = older["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["stressors"]
    required = version["schema"]["openAPIV3Schema"]["properties"]["spec"].get("required", [])
    required[:] = [name for name in required if name != "stressors"]
    api_server.catalogue.install(older)
    found = examined()
    one = found["admission of stresschaos"]
    assert 'unknown field "spec.stressors"' in one.found and "update Chaos Mesh to 2.8 or newer" in one.remedy
    assert not one.needed and "StressChaos" not in found["admission of faults"].found


def test_a_claim(examined, api_server, cluster, connection):
    one = examined(has_claim=True)["volume claim runs"]
    assert not one.good and one.needed and "there is none in namespace" in one.found and "--volume" in one.remedy
    for mode, phase, good, needed in (
        ("ReadWriteMany", "Bound", True, True),
        ("ReadWriteOnce", "Bound", False, True),
        ("ReadWriteMany", "Pending", False, False),
        ("ReadWriteMany", "Lost", False, True),
    ):
        made = {**claim("runs", mode), "status": {"phase": phase}}
        api_server.put("persistentvolumeclaims", made, namespace=cluster.namespace)
        one = examined(has_claim=True)["volume claim runs"]
        assert (one.good, one.needed) == (good, needed), one
        assert phase in one.found and mode in one.found
