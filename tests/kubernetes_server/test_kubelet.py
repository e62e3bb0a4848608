"""The kubelet of our server does what a real one does with a pod, as far as chaoskit's tests rest on it."""

from __future__ import annotations

import pytest
from kubernetes import client, config

from tests.docker_images import images

pytestmark = pytest.mark.launches


@pytest.fixture
def core(machines):
    with config.new_client_from_config(str(machines.cluster.kubeconfig), context=machines.cluster.context) as api:
        yield client.CoreV1Api(api)


@pytest.fixture
def begin(machines, core):
    """Makes a pod that runs a command."""

    def make(name, *command, image="", node=None, **more):
        container = {"name": "trainer", "image": image or images.image("python"), "command": list(command), **more}
        spec = {"restartPolicy": "Never", "containers": [container]}
        if node is not None:
            spec |= {"hostname": node, "subdomain": "s"}
        if "volumeMounts" in more:
            spec["volumes"] = [{"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}}]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        return core.create_namespaced_pod(machines.cluster.namespace, body).metadata.uid

    return make


@pytest.fixture
def phase(machines, core, until):
    """Waits until a pod has a phase; returns the pod."""

    def wait(name, wanted):
        def has():
            found = core.read_namespaced_pod(name, machines.cluster.namespace)
            return found.status.phase == wanted and found

        until(has, timeout=60)
        return has()

    return wait


def python(code):
    return ("python3", "-c", code)


def test_a_pod_runs_and_ends_with_its_code(machines, core, begin, phase):
    begin("good", *python("print('said')"))
    begin("bad", *python("import sys; sys.exit(3)"))
    good, bad = phase("good", "Succeeded"), phase("bad", "Failed")
    assert good.spec.node_name and good.status.container_statuses[0].image_id.startswith("sha256:")
    assert bad.status.container_statuses[0].state.terminated.exit_code == 3
    assert core.read_namespaced_pod_log("good", machines.cluster.namespace) == "said\n"


def test_an_image_that_is_not_there(machines, core, begin, until):
    begin("absent", "true", image="absent:1")

    def reason():
        told = core.read_namespaced_pod("absent", machines.cluster.namespace).status.container_statuses
        return told and told[0].state.waiting.reason

    until(lambda: reason() == "ErrImagePull", timeout=30)
    until(lambda: reason() == "ImagePullBackOff", timeout=30)


def test_a_full_cluster_takes_the_pod_once_it_has_room(machines, core, begin, phase, until):
    room = machines.kubelet.scheduler.unschedulable
    machines.kubelet.scheduler.unschedulable = lambda pod: "Insufficient cpu"
    begin("waits", *python("pass"))
    until(lambda: core.read_namespaced_pod("waits", machines.cluster.namespace).status.conditions, timeout=30)
    assert core.read_namespaced_pod("waits", machines.cluster.namespace).status.phase == "Pending"
    machines.kubelet.scheduler.unschedulable = room
    phase("waits", "Succeeded")


def test_pods_share_a_volume_and_a_part_may_be_read_only(machines, begin, phase):
    (machines.volume / "part").mkdir()
    mounts = [
        {"name": "runs", "mountPath": "/data", "subPath": "part"},
        {"name": "runs", "mountPath": "/again", "subPath": "part", "readOnly": True},
    ]
    begin("writes", *python("open('/data/a', 'w').write('x')"), volumeMounts=mounts)
    phase("writes", "Succeeded")
    assert (machines.volume / "part" / "a").read_text() == "x"
    begin("cannot", *python("open('/again/b', 'w')"), volumeMounts=mounts)
    phase("cannot", "Failed")


def test_pods_of_a_service_know_each_other_by_name(machines, core, begin, phase):
    headless = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}
    core.create_namespaced_service(machines.cluster.namespace, headless)
    begin("one", *python("import time; time.sleep(100)"), node="node0")
    address = phase("one", "Running").status.pod_ip
    namespace = machines.cluster.namespace
    names = ["node0.s", f"node0.s.{namespace}.svc.cluster.local"]
    begin("two", *python(f"import socket; print(set(map(socket.gethostbyname, {names})))"), node="node1")
    phase("two", "Succeeded")
    assert core.read_namespaced_pod_log("two", namespace) == f"{{'{address}'}}\n"


@pytest.mark.parametrize("grace", [0, 20])
def test_a_pod_that_is_deleted_ends_at_once_or_in_its_own_way(machines, core, begin, phase, until, grace):
    code = (
        "import signal, sys, time\n"
        "def end(*_): open('/data/ended', 'w'); sys.exit()\n"
        "signal.signal(15, end); open('/data/ready', 'w'); time.sleep(100)"
    )
    uid = begin("one", *python(code), volumeMounts=[{"name": "runs", "mountPath": "/data"}])
    phase("one", "Running")
    until((machines.volume / "ready").exists, timeout=30)
    pids = machines.kubelet.pids(uid)
    core.delete_namespaced_pod("one", machines.cluster.namespace, grace_period_seconds=grace)
    until(lambda: not core.list_namespaced_pod(machines.cluster.namespace).items, timeout=30)
    until(lambda: machines.kubelet.running() == [], timeout=30)
    assert pids and (machines.volume / "ended").exists() == (grace > 0)
