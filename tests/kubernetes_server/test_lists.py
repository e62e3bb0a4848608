"""Lists: selectors by labels and by fields, and pages."""

from __future__ import annotations

import pytest

from tests.kubernetes_server.expect import config_maps, refused
from tests.kubernetes_server.objects import config_map, pod


@pytest.fixture
def labelled(core, namespace):
    """Objects called by what their labels are."""
    for name, labels in {"a1": {"a": "1"}, "a2": {"a": "2"}, "a1b": {"a": "1", "b": ""}, "none": None}.items():
        core.create_namespaced_config_map(namespace, config_map(name, labels=labels))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("a=1", {"a1", "a1b"}),
        ("a==1", {"a1", "a1b"}),
        ("a!=1", {"a2", "none"}),
        ("a=1,b=", {"a1b"}),
        ("a in (1, 2),!b", {"a1", "a2"}),
        ("a notin (1)", {"a2", "none"}),
        ("a", {"a1", "a2", "a1b"}),
        ("!a", {"none"}),
        ("a in (3)", set()),
    ],
)
def test_labels_select(core, namespace, labelled, selector, expected):
    assert config_maps(core, namespace, label_selector=selector) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=one", {"one"}),
        ("metadata.name!=one", {"two"}),
        ("status.phase=Pending", {"one", "two"}),
        ("status.phase=Running", set()),
        ("metadata.name=one,status.phase=Pending", {"one"}),
    ],
)
def test_fields_select(core, namespace, selector, expected):
    for name in ("one", "two"):
        body = pod(name)
        body["spec"]["schedulingGates"] = [{"name": "example.invalid/never"}]
        core.create_namespaced_pod(namespace, body)
    found = core.list_namespaced_pod(namespace, field_selector=selector).items
    assert {one.metadata.name for one in found} == expected


def test_pods_are_selected_by_their_node(core, api_server, namespace):
    for name in ("one", "two"):
        body = pod(name)
        body["spec"]["nodeName"] = f"node-{name}"
        api_server.put("pods", body, namespace=namespace)
    found = core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName=node-one,metadata.namespace={namespace}")
    assert [one.metadata.name for one in found.items] == ["one"]


def test_a_selector_that_cannot_be_read_is_refused(core, namespace):
    with refused(400, "BadRequest", "unable to parse requirement"):
        core.list_namespaced_pod(namespace, label_selector="a in 1")
    with refused(400, "BadRequest", "field label not supported: spec.image"):
        core.list_namespaced_pod(namespace, field_selector="spec.image=x")


def test_pages_show_one_moment(core, namespace, labelled):
    everything = {one.metadata.name for one in core.list_namespaced_config_map(namespace).items}
    page = core.list_namespaced_config_map(namespace, limit=2)
    assert len(page.items) == 2 and page.metadata.remaining_item_count == len(everything) - 2
    seen = [one.metadata.name for one in page.items]
    core.create_namespaced_config_map(namespace, config_map("zz-later"))
    versions = {page.metadata.resource_version}
    while page.metadata._continue:
        page = core.list_namespaced_config_map(namespace, limit=2, _continue=page.metadata._continue)
        seen += [one.metadata.name for one in page.items]
        versions.add(page.metadata.resource_version)
    assert set(seen) == everything and len(seen) == len(everything)
    assert len(versions) == 1


def test_a_page_of_a_compacted_moment_is_gone(core, api_server, namespace, labelled):
    page = core.list_namespaced_config_map(namespace, limit=2)
    core.create_namespaced_config_map(namespace, config_map("later"))
    api_server.store.compact()
    with refused(410, "Expired", "The provided continue parameter is too old"):
        core.list_namespaced_config_map(namespace, limit=2, _continue=page.metadata._continue)


def test_a_version_of_the_future_times_out(core, api_server, namespace):
    with refused(504, "Timeout", "Too large resource version"):
        core.list_namespaced_config_map(namespace, resource_version=str(api_server.store.version + 1000))
    with refused(400, "BadRequest", "Invalid value"):
        core.list_namespaced_config_map(namespace, resource_version="yesterday")
