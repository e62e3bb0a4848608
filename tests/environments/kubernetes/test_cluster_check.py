"""The check says what is there and what is missing, each with its remedy; it makes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaoskit.environments.kubernetes import api_kinds, cluster_check
from chaoskit.environments.kubernetes.cluster_about import ClusterAbout
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.team_jobs.kinds import KINDS
from chaoskit.errors import ExitCode, UsageError
from chaoskit.nodes import ClusterPlace
from tests.environments.kubernetes.scripted_server import Scripted, status
from tests.environments.kubernetes.staged_cluster import CHAOS, JOBS, StagedCluster

PLACE = ClusterPlace(namespace="staging", claim="runs", path="/runs")


def examined(cluster, *, has_claim=False, place=PLACE):
    """The findings by what was examined, and the requests."""
    with cluster.serve() as script:
        found = cluster_check.examine(script.connection(patience=0), place, has_claim=has_claim)
    assert len({one.what for one in found}) == len(found)
    return {one.what: one for one in found}, script.requests


def reviews(requests):
    """What was asked about permissions."""
    return [body["spec"]["resourceAttributes"] for _, url, body in requests if url.split("?")[0].endswith("reviews")]


def lacking(found):
    return {one.what for one in found.values() if not one.good}


def test_a_cluster_with_everything():
    found, requests = examined(StagedCluster())
    assert lacking(found) == set()
    assert found["version"].found == "v1.36.0" and found["namespace"].found == "staging"
    assert found["Chaos Mesh"].found == f"serves v1alpha1: {', '.join(CHAOS)}"
    assert found["permission on pods/log"].found == "get"
    assert found["admission of pods"].found == "the server would accept them"
    assert found["admission of faults"].found.endswith("StressChaos, TimeChaos, DNSChaos")
    assert found["quota"].found == "none in this namespace"
    # Reviews are the only thing that is sent to it, besides what it checks and does not store.
    changes = [url for method, url, _ in requests if method != "GET" and "dryRun=All" not in url]
    assert {url.partition("?")[0].rpartition("/")[2] for url in changes} == {"selfsubjectaccessreviews"}


def test_a_bare_cluster_has_all_that_is_needed():
    found, requests = examined(StagedCluster(kinds=()))
    assert {one.what for one in found.values() if one.needed and not one.good} == set()
    assert lacking(found) == {"Chaos Mesh"} and found["Chaos Mesh"].found == "not installed"
    assert all(found[kind].found.startswith("not installed") for kind in JOBS)
    assert {one.get("group", "") for one in reviews(requests)} == {"", "batch"}


def test_how_pods_reach_chaoskit():
    found, _ = examined(StagedCluster(kinds=()))
    assert found["channel"].found.startswith("TCP: pods connect to chaoskit")
    assert any("whether pods may connect" in one for one in cluster_check.not_checked(PLACE, image="", has_claim=True))
    files = replace(PLACE, channel="volume")
    found, requests = examined(StagedCluster(kinds=()), place=files)
    assert found["channel"].found.startswith("files on the volume") and lacking(found) == {"Chaos Mesh"}
    assert not any("connect" in one for one in cluster_check.not_checked(files, image="", has_claim=True))
    # Neither way needs a connection through the API server.
    assert not {"portforward", "exec"} & {one.get("subresource") for one in reviews(requests)}


@pytest.mark.parametrize(
    ("group", "resource", "verb", "rule"),
    [
        ("", "pods", "delete", '{apiGroups: [""], resources: [pods], verbs: [delete]}'),
        ("batch", "jobs", "list", "{apiGroups: [batch], resources: [jobs], verbs: [list]}"),
        ("", "pods/log", "get", '{apiGroups: [""], resources: [pods/log], verbs: [get]}'),
        ("chaos-mesh.org", "iochaos", "patch", "{apiGroups: [chaos-mesh.org], resources: [iochaos], verbs: [patch]}"),
    ],
)
def test_a_missing_permission_is_named_with_its_rule(group, resource, verb, rule):
    found, _ = examined(StagedCluster(allows=lambda *asked: asked != (group, resource, verb)))
    assert lacking(found) == {f"permission on {resource}"}
    one = found[f"permission on {resource}"]
    assert one.needed is (group != "chaos-mesh.org")
    assert one.found == f"not allowed: {verb}" and one.remedy == f"add to the Role: {rule}"


def test_a_permission_on_a_further_kind_of_job_is_not_needed():
    found, _ = examined(StagedCluster(allows=lambda group, resource, verb: resource != "jobsets"))
    assert lacking(found) == {"JobSet"} and not found["JobSet"].needed
    assert "resources: [jobsets], verbs: [create, get, list, delete, patch]" in found["JobSet"].remedy
    assert "not allowed: jobsets: create" in found["JobSet"].found


def test_nothing_is_allowed():
    found, _ = examined(StagedCluster(allows=lambda *asked: False))
    permissions = {what for what in found if what.startswith("permission")}
    further = {kind.api.kind for kind in KINDS if kind.api != api_kinds.JOBS}
    assert lacking(found) == permissions | further and len(permissions) == 7 + len(api_kinds.CHAOS_FAULTS)


@pytest.mark.parametrize(
    ("version", "good"),
    [("v1.29.0", True), ("v1.36.2-eks-1", True), ("v2.0.0", True), ("v1.28.9", False), ("v1.9", False), ("", False)],
)
def test_versions(version, good):
    assert ClusterAbout(version).is_new_enough is good
    found, _ = examined(StagedCluster(version=version))
    assert found["version"].good is good and found["version"].needed and "1.29" in found["version"].remedy


def test_chaos_mesh_of_another_version_or_in_parts():
    found, _ = examined(StagedCluster(chaos_version="v2"))
    one = found["Chaos Mesh"]
    assert (one.good, one.needed, one.found) == (False, False, "serves v2 only") and "v1alpha1" in one.remedy
    found, requests = examined(StagedCluster(kinds=("NetworkChaos", "TimeChaos")))
    assert found["Chaos Mesh"].found == "serves v1alpha1: NetworkChaos, TimeChaos"
    assert found["Chaos Mesh"].remedy.endswith("missing kinds of Chaos Mesh: IOChaos, StressChaos, DNSChaos")
    asked = {one["resource"] for one in reviews(requests) if one.get("group") == "chaos-mesh.org"}
    assert asked == {"networkchaos", "timechaos"}


def test_a_namespace_that_is_not_there_or_cannot_be_seen():
    with pytest.raises(UsageError, match="no namespace 'staging' in this cluster: kubectl create namespace staging"):
        examined(StagedCluster(namespace=404))
    found, _ = examined(StagedCluster(namespace=403))
    assert found["namespace"].good and "its name is trusted" in found["namespace"].found


def test_quota():
    quota = {"metadata": {"name": "small"}, "status": {"hard": {"pods": "10", "cpu": "4"}, "used": {"pods": "3"}}}
    unused = {"metadata": {"name": "new"}, "spec": {"hard": {"services": "5"}}}
    found, _ = examined(StagedCluster(quotas=(quota, unused)))
    assert found["quota"].found == "pods 3 of 10, cpu 0 of 4, services 0 of 5"
    found, _ = examined(StagedCluster(quotas=None))
    assert not found["quota"].good and not found["quota"].needed
    assert 'resources: [resourcequotas], verbs: [list]' in found["quota"].remedy


@pytest.mark.parametrize("path", ["/version", "/apis", "/apis/chaos-mesh.org/v1alpha1", "/api/v1/namespaces/staging"])
def test_credentials_that_are_not_accepted_and_a_server_that_fails(path):
    expired = status(401, "Unauthorized", "Unauthorized")
    with pytest.raises(ClusterError, match="does not accept the credentials") as raised:
        examined(StagedCluster(answers={path: expired}))
    assert raised.value.exit_code == ExitCode.USAGE
    with pytest.raises(ClusterError) as raised:
        examined(StagedCluster(answers={path: Scripted(503, "")}))
    assert raised.value.exit_code == ExitCode.INTERNAL
