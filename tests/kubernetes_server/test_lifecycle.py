"""Objects are made, read, changed and deleted through the official client, as on a real server."""

from __future__ import annotations

import copy

import pytest
from kubernetes import client

from tests.kubernetes_server.expect import config_maps, refused
from tests.kubernetes_server.objects import config_map, job, pod, pod_chaos


def test_an_object_gets_what_only_a_server_gives(core, namespace):
    made = core.create_namespaced_config_map(namespace, config_map("one")).metadata
    assert made.uid and made.creation_timestamp and int(made.resource_version) > 0
    read = core.read_namespaced_config_map("one", namespace)
    assert (read.metadata.uid, read.data) == (made.uid, {"a": "1"})
    other = core.create_namespaced_config_map(namespace, config_map("other")).metadata
    assert int(other.resource_version) > int(made.resource_version)


def test_what_is_not_there_is_not_found(core, custom, podchaos, namespace):
    with refused(404, "NotFound", 'configmaps "one" not found'):
        core.read_namespaced_config_map("one", namespace)
    with refused(404, "NotFound", 'podchaos.chaos-mesh.org "one" not found'):
        custom.get_namespaced_custom_object(**podchaos, name="one")
    with refused(404, "NotFound", 'namespaces "not-there" not found'):
        core.create_namespaced_config_map("not-there", config_map("one"))
    with pytest.raises(client.ApiException) as error:
        custom.list_cluster_custom_object("chaos-mesh.org", "v1alpha1", "notchaos")
    assert (error.value.status, error.value.body) == (404, "404 page not found\n")


def test_a_name_is_taken_once(core, namespace):
    core.create_namespaced_config_map(namespace, config_map("one"))
    with refused(409, "AlreadyExists", 'configmaps "one" already exists'):
        core.create_namespaced_config_map(namespace, config_map("one"))


def test_names_are_generated(core, namespace):
    body = {"metadata": {"generateName": "one-"}}
    names = {core.create_namespaced_config_map(namespace, body).metadata.name for _ in range(3)}
    assert len(names) == 3 and all(name.startswith("one-") and len(name) == 9 for name in names)
    with refused(422, "Invalid", "name or generateName is required"):
        core.create_namespaced_config_map(namespace, {"metadata": {}})


def test_an_old_version_is_not_written_over(core, namespace):
    seen = core.create_namespaced_config_map(namespace, config_map("one"))
    newer = copy.deepcopy(seen)
    newer.data = {"a": "2"}
    core.replace_namespaced_config_map("one", namespace, newer)
    with refused(409, "Conflict", 'Operation cannot be fulfilled on configmaps "one": the object has been modified'):
        core.replace_namespaced_config_map("one", namespace, seen)
    seen.metadata.resource_version = None
    assert core.replace_namespaced_config_map("one", namespace, seen).data == {"a": "1"}


def test_a_change_that_changes_nothing_makes_no_version(core, namespace):
    made = core.create_namespaced_config_map(namespace, config_map("one"))
    again = core.patch_namespaced_config_map("one", namespace, {"data": {"a": "1"}})
    assert again.metadata.resource_version == made.metadata.resource_version


def test_a_generation_counts_changes_of_the_spec(custom, podchaos, namespace):
    made = custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace))
    assert made["metadata"]["generation"] == 1
    noted = {"metadata": {"annotations": {"a": "b"}}}
    made = custom.patch_namespaced_custom_object(**podchaos, name="one", body=noted)
    assert made["metadata"]["generation"] == 1
    made = custom.patch_namespaced_custom_object(**podchaos, name="one", body={"spec": {"mode": "all"}})
    assert made["metadata"]["generation"] == 2


def test_some_kinds_count_no_generations(core, namespace):
    core.create_namespaced_config_map(namespace, config_map("one"))
    assert core.patch_namespaced_config_map("one", namespace, {"data": {"a": "2"}}).metadata.generation is None


def test_a_dry_run_makes_nothing(core, namespace):
    made = core.create_namespaced_config_map(namespace, config_map("one"), dry_run="All")
    assert made.metadata.name == "one"
    with refused(404, "NotFound"):
        core.read_namespaced_config_map("one", namespace)
    core.create_namespaced_config_map(namespace, config_map("one"))
    core.patch_namespaced_config_map("one", namespace, {"data": {"a": "2"}}, dry_run="All")
    core.delete_namespaced_config_map("one", namespace, dry_run="All")
    assert core.read_namespaced_config_map("one", namespace).data == {"a": "1"}


def test_a_finalizer_holds_what_is_deleted(custom, podchaos, namespace):
    body = pod_chaos("one", namespace)
    body["metadata"]["finalizers"] = ["chaos-mesh/records"]
    custom.create_namespaced_custom_object(**podchaos, body=body)
    custom.delete_namespaced_custom_object(**podchaos, name="one")
    assert custom.get_namespaced_custom_object(**podchaos, name="one")["metadata"]["deletionTimestamp"]
    with refused(422, "Invalid", "no new finalizers can be added if the object is being deleted"):
        more = {"metadata": {"finalizers": ["chaos-mesh/records", "example.invalid/more"]}}
        custom.patch_namespaced_custom_object(**podchaos, name="one", body=more)
    custom.patch_namespaced_custom_object(**podchaos, name="one", body={"metadata": {"finalizers": []}})
    with refused(404, "NotFound"):
        custom.get_namespaced_custom_object(**podchaos, name="one")


def test_a_deletion_may_name_the_object_it_means(core, namespace):
    made = core.create_namespaced_config_map(namespace, config_map("one"))
    with refused(409, "Conflict", "Precondition failed: UID in precondition: other"):
        core.delete_namespaced_config_map("one", namespace, body={"preconditions": {"uid": "other"}})
    core.delete_namespaced_config_map("one", namespace, body={"preconditions": {"uid": made.metadata.uid}})
    with refused(404, "NotFound"):
        core.read_namespaced_config_map("one", namespace)


def test_a_pod_that_is_on_no_node_goes_at_once(core, namespace):
    body = pod("one")
    body["spec"]["schedulingGates"] = [{"name": "example.invalid/never"}]
    core.create_namespaced_pod(namespace, body)
    core.delete_namespaced_pod("one", namespace)
    with refused(404, "NotFound"):
        core.read_namespaced_pod("one", namespace)


def test_a_pod_on_a_node_has_its_grace(core, api_server, namespace):
    """No kubelet is here: a second deletion, with no grace, is what removes the pod."""
    body = pod("one")
    body["spec"]["nodeName"] = "node-1"
    api_server.put("pods", body, namespace=namespace)
    core.delete_namespaced_pod("one", namespace, grace_period_seconds=20)
    held = core.read_namespaced_pod("one", namespace).metadata
    assert held.deletion_grace_period_seconds == 20 and held.deletion_timestamp
    core.delete_namespaced_pod("one", namespace, grace_period_seconds=50)
    assert core.read_namespaced_pod("one", namespace).metadata.deletion_grace_period_seconds == 20
    core.delete_namespaced_pod("one", namespace, grace_period_seconds=0)
    with refused(404, "NotFound"):
        core.read_namespaced_pod("one", namespace)


def test_a_pod_is_evicted(core, namespace):
    body = pod("one")
    body["spec"]["schedulingGates"] = [{"name": "example.invalid/never"}]
    core.create_namespaced_pod(namespace, body)
    core.create_namespaced_pod_eviction("one", namespace, {"metadata": {"name": "one", "namespace": namespace}})
    with refused(404, "NotFound"):
        core.read_namespaced_pod("one", namespace)


def test_many_are_deleted_at_once(core, namespace):
    for number in range(3):
        core.create_namespaced_config_map(namespace, config_map(f"one-{number}", labels={"run": "r1"}))
    core.create_namespaced_config_map(namespace, config_map("other"))
    core.delete_collection_namespaced_config_map(namespace, label_selector="run=r1")
    assert config_maps(core, namespace) == {"other"}


def test_a_namespace_goes_with_what_is_in_it(core, api_server):
    core.create_namespace({"metadata": {"name": "going"}})
    held = config_map("held", finalizers=["example.invalid/hold"])
    core.create_namespaced_config_map("going", held)
    core.create_namespaced_config_map("going", config_map("free"))
    core.delete_namespace("going")
    assert core.read_namespace("going").status.phase == "Terminating"
    assert config_maps(core, "going") == {"held"}
    with refused(403, "Forbidden", "unable to create new content in namespace going because it is being terminated"):
        core.create_namespaced_config_map("going", config_map("more"))
    core.patch_namespaced_config_map("held", "going", [{"op": "remove", "path": "/metadata/finalizers"}])
    with refused(404, "NotFound"):
        core.read_namespace("going")


def test_a_job_that_is_deleted_by_default_leaves_its_pods(api, core, namespace):
    """The trap of the first version of this API: who names no policy orphans the pods."""
    batch = client.BatchV1Api(api)
    made = batch.create_namespaced_job(namespace, job("one"))
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "one", "uid": made.metadata.uid}
    core.create_namespaced_config_map(namespace, config_map("of-it", ownerReferences=[reference]))
    batch.delete_namespaced_job("one", namespace)
    assert core.read_namespaced_config_map("of-it", namespace).metadata.name == "of-it"
