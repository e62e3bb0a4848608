"""Watches, as the official client reads them: real streams, bookmarks, an end, and versions that are compacted."""

from __future__ import annotations

import threading

import pytest
from kubernetes import client, watch

from tests.kubernetes_server.expect import refused
from tests.kubernetes_server.objects import config_map, pod_chaos


@pytest.fixture
def since(core, namespace):
    """A version to watch from: what was there before the test is older."""
    return core.list_namespaced_config_map(namespace).metadata.resource_version


def seen(events):
    return [(event["type"], event["raw_object"]["metadata"].get("name")) for event in events]


def follow(core, namespace, **options):
    """The events until that of the object "end", which is made now."""
    core.create_namespaced_config_map(namespace, config_map("end", labels={"run": "r1"}))
    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespaced_config_map, namespace, **options):
        if event["raw_object"]["metadata"].get("name") == "end":
            watcher.stop()
        else:
            yield event


def test_changes_since_a_version_are_told_in_order(core, namespace, since):
    core.create_namespaced_config_map(namespace, config_map("one"))
    core.patch_namespaced_config_map("one", namespace, {"data": {"a": "2"}})
    core.create_namespaced_config_map(namespace, config_map("two"))
    core.delete_namespaced_config_map("one", namespace)
    events = list(follow(core, namespace, resource_version=since, timeout_seconds=60))
    assert seen(events) == [("ADDED", "one"), ("MODIFIED", "one"), ("ADDED", "two"), ("DELETED", "one")]
    versions = [int(event["raw_object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions)) and versions[0] > int(since)


def test_an_event_comes_as_it_happens(core, namespace, since):
    """The stream is read before the object is made, and it has no end of its own."""
    watcher = watch.Watch()
    events = watcher.stream(core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=60)
    late = threading.Timer(0.05, core.create_namespaced_config_map, (namespace, config_map("late")))
    late.start()
    try:
        assert seen([next(events)]) == [("ADDED", "late")]
    finally:
        watcher.stop()
        events.close()
        late.join()


def test_without_a_version_all_that_is_there_comes_first(custom, podchaos, namespace):
    for name in ("one", "two"):
        custom.create_namespaced_custom_object(**podchaos, body=pod_chaos(name, namespace))
    watcher = watch.Watch()
    events = watcher.stream(custom.list_namespaced_custom_object, **podchaos, timeout_seconds=60)
    assert sorted(seen([next(events), next(events)])) == [("ADDED", "one"), ("ADDED", "two")]
    watcher.stop()
    events.close()


def test_who_leaves_a_selector_is_deleted_for_it(core, namespace, since):
    core.create_namespaced_config_map(namespace, config_map("one", labels={"run": "r1"}))
    core.create_namespaced_config_map(namespace, config_map("two"))
    core.patch_namespaced_config_map("two", namespace, {"metadata": {"labels": {"run": "r1"}}})
    core.patch_namespaced_config_map("one", namespace, {"metadata": {"labels": {"run": "r2"}}})
    events = follow(core, namespace, label_selector="run=r1", resource_version=since, timeout_seconds=60)
    assert seen(events) == [("ADDED", "one"), ("ADDED", "two"), ("DELETED", "one")]


def test_a_watch_ends_after_its_time_with_a_bookmark(core, namespace, since):
    core.create_namespaced_config_map(namespace, config_map("one", labels={"run": "r2"}))
    options = {"label_selector": "run=r1", "allow_watch_bookmarks": True, "timeout_seconds": 1}
    stream = watch.Watch().stream(core.list_namespaced_config_map, namespace, resource_version=since, **options)
    marks = [event for event in stream if event["type"] == "BOOKMARK"]
    assert int(marks[-1]["raw_object"]["metadata"]["resourceVersion"]) > int(since)


def test_a_compacted_version_is_gone_within_the_stream(core, api_server, namespace, since):
    core.create_namespaced_config_map(namespace, config_map("one"))
    api_server.store.compact()
    options = {"watch": True, "resource_version": since, "_preload_content": False, "timeout_seconds": 30}
    response = core.list_namespaced_config_map(namespace, **options)
    assert response.status == 200 and b'"type": "ERROR"' in response.data and b'"code": 410' in response.data
    with pytest.raises(client.ApiException, match="Expired: too old resource version") as error:
        options = {"resource_version": since, "timeout_seconds": 60}
        list(watch.Watch().stream(core.list_namespaced_config_map, namespace, **options))
    assert error.value.status == 410


def test_a_compacted_version_is_gone_at_once(core, api_server, namespace, since):
    core.create_namespaced_config_map(namespace, config_map("one"))
    api_server.store.compact()
    api_server.api.watches.gone_at_once = True
    with refused(410, "Expired", f"too old resource version: {since}"):
        core.list_namespaced_config_map(namespace, watch=True, resource_version=since)


def test_a_client_that_leaves_ends_its_watch(core, api_server, namespace, since, until):
    before = api_server.open_connections
    streams = [
        core.list_namespaced_config_map(namespace, watch=True, resource_version=since, _preload_content=False)
        for _ in range(3)
    ]
    assert api_server.open_connections >= before + 2
    for stream in streams:
        stream.close()
    until(lambda: api_server.open_connections <= before, timeout=60)
