"""Merge, JSON patch and strategic merge, each as its media type says."""

from __future__ import annotations

import pytest
from kubernetes import client

from tests.kubernetes_server.expect import refused
from tests.kubernetes_server.objects import config_map, job, pod_chaos
from tests.kubernetes_server.patches import JSON_PATCH, MERGE, STRATEGIC


@pytest.fixture
def suspended(api, namespace):
    """A job that does not run: its template may be changed."""
    body = job("one")
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    client.BatchV1Api(api).create_namespaced_job(namespace, body)

    def patch(container, media_type=STRATEGIC):
        body = {"spec": {"template": {"spec": {"containers": [container]}}}}
        batch = client.BatchV1Api(api)
        made = batch.patch_namespaced_job("one", namespace, body, _content_type=media_type)
        return made.spec.template.spec.containers

    return patch


def test_a_strategic_merge_knows_containers_and_variables_by_their_names(suspended):
    (container,) = suspended({"name": "main", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]})
    assert container.command == ["true"]
    assert {one.name: one.value for one in container.env} == {"A": "1", "B": "3", "C": "4"}
    (container,) = suspended({"name": "main", "env": [{"$patch": "delete", "name": "A"}]})
    assert {one.name for one in container.env} == {"B", "C"}
    assert [one.name for one in suspended({"name": "more", "image": "example.invalid/x"})] == ["main", "more"]


def test_a_merge_replaces_lists(suspended):
    (container,) = suspended({"name": "other", "image": "example.invalid/x"}, MERGE)
    assert (container.name, container.command) == ("other", None)


@pytest.mark.parametrize("media_type", [MERGE, STRATEGIC])
def test_null_removes(core, namespace, media_type):
    core.create_namespaced_config_map(namespace, config_map("one", labels={"a": "1", "b": "2"}))
    body = {"metadata": {"labels": {"a": None, "c": "3"}}}
    made = core.patch_namespaced_config_map("one", namespace, body, _content_type=media_type)
    assert made.metadata.labels == {"b": "2", "c": "3"}


def test_a_json_patch_is_all_or_nothing(core, namespace):
    core.create_namespaced_config_map(namespace, config_map("one"))
    good = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/data/b~1c", "value": "2"},
        {"op": "move", "from": "/data/a", "path": "/data/d"},
    ]
    made = core.patch_namespaced_config_map("one", namespace, good, _content_type=JSON_PATCH)
    assert made.data == {"b/c": "2", "d": "1"}
    bad = [{"op": "remove", "path": "/data/d"}, {"op": "test", "path": "/data/b~1c", "value": "3"}]
    with refused(422, "Invalid", "the server rejected our request due to an error in our request"):
        core.patch_namespaced_config_map("one", namespace, bad)
    assert core.read_namespaced_config_map("one", namespace).data == {"b/c": "2", "d": "1"}


def test_a_custom_resource_takes_no_strategic_merge(custom, podchaos, namespace):
    custom.create_namespaced_custom_object(**podchaos, body=pod_chaos("one", namespace))
    body = {"metadata": {"labels": {"a": "b"}}}
    with refused(415, "UnsupportedMediaType", "accepted media types include: application/json-patch+json"):
        custom.patch_namespaced_custom_object(**podchaos, name="one", body=body, _content_type=STRATEGIC)


def test_a_patch_may_name_the_version_it_means(core, namespace):
    made = core.create_namespaced_config_map(namespace, config_map("one"))
    core.patch_namespaced_config_map("one", namespace, {"data": {"a": "2"}})
    late = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"a": "3"}}
    with refused(409, "Conflict"):
        core.patch_namespaced_config_map("one", namespace, late)
