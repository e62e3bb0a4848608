"""What the check does with an image: two pods that share a volume or do not, and a fault that matches no pod."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaoskit.environments.kubernetes import chaos_check, cluster_check, volume_check
from tests.docker_images import images
from tests.environments.kubernetes.conftest import left
from tests.kubernetes_server.chaos_controller import ChaosController

pytestmark = pytest.mark.launches
WHAT, CONTROLLER = volume_check.WHAT, chaos_check.CONTROLLER


@pytest.fixture
def examined(machines, cluster_place, connection):
    """Checks with pods; nothing of them is left."""
    machines.volume.chmod(0o777)

    def examine(*, image="torch", has_claim=True):
        found = cluster_check.examine(connection, cluster_place, has_claim=has_claim, image=images.image(image))
        assert left(connection, machines.cluster.namespace) == []
        assert os.listdir(machines.volume) == []
        return {one.what: one for one in found}

    return examine


@pytest.mark.slow
@pytest.mark.usefixtures("crds")
def test_two_pods_on_two_machines_share_the_volume_and_chaos_mesh_works(examined, api_server):
    controller = ChaosController(api_server).start()
    try:
        found = examined()
        assert found[CONTROLLER].good, found[CONTROLLER]
        controller.is_idle = True
        found = examined(has_claim=False)
        assert not found[CONTROLLER].good and "paused or overloaded" in found[CONTROLLER].remedy
        assert WHAT not in found
    finally:
        controller.is_idle = False
        controller.stop()


def test_what_the_pods_did_is_said(examined, monkeypatch):
    monkeypatch.setattr(chaos_check.takes_up, "__kwdefaults__", {"limit": 0.5})
    found = examined()
    assert found[WHAT].good and "pods on node-0 and node-1 each wrote a file" in found[WHAT].found
    assert "torch, as user 0" in found["image"].found


def test_one_machine_shows_nothing(examined, machines, api_server, monkeypatch):
    monkeypatch.setattr(chaos_check.takes_up, "__kwdefaults__", {"limit": 0.5})
    monkeypatch.setattr(volume_check, "_LONELY", 2.0)
    nodes = api_server.catalogue.named("nodes")
    api_server.store.put(nodes, {**api_server.store.get(nodes, "", "node-1"), "spec": {"unschedulable": True}})
    one = examined()[WHAT]
    assert not one.good and not one.needed
    assert one.found.startswith("could not be shown: no second machine took a pod (no node of the cluster takes")
    assert "node(s) didn't match pod anti-affinity rules" in one.found


def test_a_volume_that_is_another_one_on_each_machine(examined, machines, monkeypatch, tmp_path):
    monkeypatch.setattr(chaos_check.takes_up, "__kwdefaults__", {"limit": 0.5})
    monkeypatch.setattr(volume_check, "_OTHER", 2)
    shared = machines.kubelet._claim

    def each_its_own(pod, claim):
        shared(pod, claim)
        place = Path(tmp_path, f"of-{pod['metadata']['name']}")
        place.mkdir(exist_ok=True)
        return place

    object.__setattr__(machines.kubelet._node, "claims", each_its_own)
    one = examined()[WHAT]
    assert not one.good and one.needed and "the file of the other pod did not come within 2 s" in one.found
    assert "ReadWriteMany" in one.remedy


def test_an_image_that_cannot_run_is_told_and_no_pod_is_made_for_the_volume(examined):
    found = examined(image="no-torch")
    assert not found["image"].good and "has no torch" in found["image"].found and WHAT not in found
