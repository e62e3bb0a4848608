"""Pods that are deleted end as on a real node, and nothing of any pod outlives the fixture."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.kubernetes_server.containers import LABEL, Containers

pytestmark = pytest.mark.launches
#: Tells of a SIGTERM on a volume, and ends or stays; on the volume is seen, too, that it listens.
LISTENS = "trap 'touch /d/told; {}' TERM; touch /d/ready; while :; do sleep 0.1; done"


@pytest.fixture
def listens(pods, real_cluster, tmp_path):
    """Makes a pod that listens to SIGTERM, and waits until it does; gives its processes here."""

    def make(name, then, **spec):
        pods.core.create_namespaced_persistent_volume_claim(
            pods.namespace, {"metadata": {"name": "d"}, "spec": {
                "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}})  # fmt: skip
        real_cluster.kubelet.volumes[(pods.namespace, "d")] = tmp_path
        volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
        mounts = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
        uid = pods.make(name, LISTENS.format(then), container=mounts, spec={"volumes": volumes, **spec}).metadata.uid
        pods.until((tmp_path / "ready").exists, timeout=60)
        pods.phase(name, "Running")
        pids = real_cluster.kubelet.pids(uid)
        assert pids
        return pids

    return make


def are_gone(pids):
    return not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_deleted_pod_ends_in_its_own_way(pods, listens, tmp_path):
    pids = listens("one", "sleep 1.5; touch /d/late; exit 0")
    deleted = pods.core.delete_namespaced_pod("one", pods.namespace)
    assert deleted.metadata.deletion_timestamp and deleted.metadata.deletion_grace_period_seconds == 20
    pods.until(pods.are_gone, timeout=60)
    assert (tmp_path / "told").exists() and (tmp_path / "late").exists() and are_gone(pids)


def test_who_does_not_end_in_time_is_killed(pods, listens, tmp_path):
    pids = listens("one", "true")
    pods.core.delete_namespaced_pod("one", pods.namespace, grace_period_seconds=1)
    pods.until((tmp_path / "told").exists, timeout=60)
    pods.until(pods.are_gone, timeout=60)
    assert are_gone(pids)


def test_a_grace_may_be_cut_short(pods, listens, tmp_path):
    pids = listens("one", "true", terminationGracePeriodSeconds=3600)
    pods.core.delete_namespaced_pod("one", pods.namespace)
    pods.until((tmp_path / "told").exists, timeout=60)
    assert not pods.are_gone()
    pods.core.delete_namespaced_pod("one", pods.namespace, grace_period_seconds=1)
    pods.until(pods.are_gone, timeout=60)
    assert are_gone(pids)


def test_without_grace_the_object_goes_first(pods, listens, tmp_path):
    pids = listens("one", "exit 0")
    pods.core.delete_namespaced_pod("one", pods.namespace, grace_period_seconds=0)
    assert pods.are_gone()
    pods.until(lambda: are_gone(pids), timeout=60)
    assert not (tmp_path / "told").exists()


def test_a_name_may_be_used_again_at_once(pods, real_cluster):
    old = pods.make("one", "exec sleep 1000").metadata.uid
    pods.phase("one", "Running")
    pods.core.delete_namespaced_pod("one", pods.namespace, grace_period_seconds=0)
    new = pods.make("one", "exec sleep 1000").metadata.uid
    assert pods.phase("one", "Running").metadata.uid == new != old
    pods.until(lambda: real_cluster.kubelet.running() == [new], timeout=60)


def test_a_pod_that_waits_for_a_node_or_an_image_can_be_deleted(pods, real_cluster):
    pods.make("image", "true", container={"image": "example.invalid/absent:1"})
    pods.make("node", "true", spec={"nodeSelector": {"example.invalid/zone": "none"}})
    pods.waits("image", "ErrImagePull")
    for name in ("image", "node"):
        pods.core.delete_namespaced_pod(name, pods.namespace)
    pods.until(pods.are_gone, timeout=60)


def test_a_killed_container_is_a_failed_pod(pods, real_cluster):
    uid = pods.make("one", "exec sleep 1000").metadata.uid
    pods.phase("one", "Running")
    real_cluster.kubelet.kill_container(uid)
    pods.phase("one", "Failed")
    assert pods.state("one").terminated.exit_code == 137


def test_a_container_that_somebody_removes_is_a_failed_pod(pods, real_cluster):
    assert real_cluster.kubelet  # whose containers are in a daemon here
    pods.make("one", "exec sleep 1000")
    found = pods.phase("one", "Running").status.container_statuses[0].container_id
    subprocess.run(["docker", "rm", "--force", found.removeprefix("docker://")], check=True, capture_output=True)
    pods.phase("one", "Failed")
    assert pods.state("one").terminated.exit_code == 137


def test_of_pods_that_ended_nothing_is_left_in_the_daemon(pods, real_cluster):
    memory = [{"name": "m", "emptyDir": {"medium": "Memory"}}]
    pods.make("one", "true", spec={"volumes": memory})
    pods.make("two", "exec sleep 1000", spec={"volumes": memory})
    pods.phase("one", "Succeeded")
    pods.phase("two", "Running")
    pods.core.delete_namespaced_pod("two", pods.namespace, grace_period_seconds=0)
    pods.until(lambda: len(real_cluster.kubelet.left()) == 1, timeout=60)  # the network


TEST = """
import pytest

def test_it(real_cluster, request):
    from kubernetes import client, config
    with config.new_client_from_config(str(real_cluster.kubeconfig)) as api:
        core = client.CoreV1Api(api)
        main = {"name": "main", "image": real_cluster.image, "command": ["sleep", "1000"]}
        body = {"metadata": {"name": "one"}, "spec": {"containers": [main]}}
        core.create_namespaced_pod(real_cluster.namespace, body)
        while core.read_namespaced_pod("one", real_cluster.namespace).status.phase != "Running":
            pass
    print("MARK", real_cluster.kubelet.mark)
    assert not "it fails"
"""
CONFTEST = """
from tests.docker_images.fixtures import docker_image
from tests.kubernetes_server.fixtures import api_server, cluster, crds, real_cluster
"""


def marked(mark):
    found = []
    for what in (["ps", "--all"], ["network", "ls"], ["volume", "ls"]):
        words = ["docker", *what, "--quiet", "--filter", f"label={LABEL}={mark}"]
        found += subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    return found


def test_of_a_failed_test_nothing_is_left(pytester, docker_image):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TEST)
    done = pytester.runpytest("-p", "no:cacheprovider")
    done.assert_outcomes(failed=1)
    (mark,) = [line.split()[1] for line in done.outlines if line.startswith("MARK")]
    assert marked(mark) == []


def test_what_is_left_is_found(pytester, monkeypatch, docker_image):
    kept = []
    monkeypatch.setattr(Containers, "close", lambda self: kept.append(self))
    monkeypatch.setattr(Containers, "disconnect", lambda self: None)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TEST)
    done = pytester.runpytest("-p", "no:cacheprovider")
    done.assert_outcomes(failed=1, errors=1)
    done.stdout.fnmatch_lines(["*the kubelet has left*k8s_main_one_*"])
    monkeypatch.undo()
    (containers,) = kept
    containers.close()
    assert containers.left() == []
