"""What goes with its owner, and when: Background, Foreground and Orphan."""

from __future__ import annotations

import pytest

from tests.kubernetes_server.expect import config_maps, refused
from tests.kubernetes_server.objects import config_map


@pytest.fixture
def owner(core, namespace):
    return core.create_namespaced_config_map(namespace, config_map("owner")).metadata


def owned(name, *owners, **metadata):
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": one.name, "uid": one.uid, "blockOwnerDeletion": True}
        for one in owners
    ]
    return config_map(name, ownerReferences=references, **metadata)


def test_dependents_go_after_their_owner(core, namespace, owner, until):
    child = core.create_namespaced_config_map(namespace, owned("child", owner)).metadata
    core.create_namespaced_config_map(namespace, owned("grandchild", child))
    core.create_namespaced_config_map(namespace, config_map("stranger"))
    core.delete_namespaced_config_map("owner", namespace, propagation_policy="Background")
    until(lambda: config_maps(core, namespace) == {"stranger"}, timeout=60)


def test_an_owner_waits_for_dependents_in_the_foreground(core, namespace, owner, until):
    held = owned("child", owner, finalizers=["example.invalid/hold"])
    core.create_namespaced_config_map(namespace, held)
    core.delete_namespaced_config_map("owner", namespace, propagation_policy="Foreground")
    until(lambda: core.read_namespaced_config_map("child", namespace).metadata.deletion_timestamp, timeout=60)
    waiting = core.read_namespaced_config_map("owner", namespace).metadata
    assert waiting.deletion_timestamp and "foregroundDeletion" in waiting.finalizers
    core.patch_namespaced_config_map("child", namespace, [{"op": "remove", "path": "/metadata/finalizers"}])
    until(lambda: config_maps(core, namespace) == set(), timeout=60)


def test_orphans_stay_without_a_reference(core, namespace, owner, until):
    core.create_namespaced_config_map(namespace, owned("child", owner))
    core.delete_namespaced_config_map("owner", namespace, propagation_policy="Orphan")
    until(lambda: config_maps(core, namespace) == {"child"}, timeout=60)
    assert core.read_namespaced_config_map("child", namespace).metadata.owner_references is None


def test_what_has_another_owner_stays(core, namespace, owner, until):
    other = core.create_namespaced_config_map(namespace, config_map("other")).metadata
    core.create_namespaced_config_map(namespace, owned("child", owner, other))
    core.delete_namespaced_config_map("owner", namespace, propagation_policy="Background")

    def owners():
        return [one.name for one in core.read_namespaced_config_map("child", namespace).metadata.owner_references]

    until(lambda: owners() == ["other"], timeout=60)


def test_what_names_an_owner_that_is_not_there_goes(core, namespace, owner, until):
    owner.uid = "00000000-0000-0000-0000-000000000000"
    core.create_namespaced_config_map(namespace, owned("child", owner))
    until(lambda: "child" not in config_maps(core, namespace), timeout=60)


def test_an_unknown_policy_is_refused(core, namespace, owner):
    with refused(422, "Invalid", 'supported values: "Foreground", "Background", "Orphan"'):
        core.delete_namespaced_config_map("owner", namespace, propagation_policy="All")


def test_the_collector_may_be_late(core, api_server, namespace, owner):
    core.create_namespaced_config_map(namespace, owned("child", owner))
    with api_server.api.garbage.paused():
        core.delete_namespaced_config_map("owner", namespace)
        assert config_maps(core, namespace) == {"child"}
    assert config_maps(core, namespace) == set()
