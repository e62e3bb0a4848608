"""What a pod has of claims, of memory, of config maps and secrets, and of itself."""

from __future__ import annotations

import base64

import pytest

from tests.kubernetes_server.objects import claim

pytestmark = pytest.mark.launches


@pytest.fixture
def runs(pods, real_cluster, tmp_path):
    """The claim `runs` on a directory of the test."""
    pods.core.create_namespaced_persistent_volume_claim(pods.namespace, claim("runs", "ReadWriteMany"))
    directory = tmp_path / "runs"
    directory.mkdir()
    real_cluster.kubelet.volumes[(pods.namespace, "runs")] = directory
    return directory


def volume(kind, about):
    return [{"name": "v", kind: about}]


def mounted(path, **more):
    return {"volumeMounts": [{"name": "v", "mountPath": path, **more}]}


OF_THE_CLAIM = {"volumes": volume("persistentVolumeClaim", {"claimName": "runs"})}


def test_pods_share_a_claim(pods, runs):
    pods.make("one", "echo x > /data/a", spec=OF_THE_CLAIM, container=mounted("/data"))
    pods.phase("one", "Succeeded")
    assert (runs / "a").read_text() == "x\n"
    pods.make("two", "cat /data/a", spec=OF_THE_CLAIM, container=mounted("/data"))
    pods.phase("two", "Succeeded")
    assert pods.log("two") == "x\n"
    found = pods.core.read_namespaced_persistent_volume_claim("runs", pods.namespace)
    assert found.status.phase == "Bound"


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": claim("x")["spec"]}
SCRATCH = {"volumes": volume("ephemeral", {"volumeClaimTemplate": TEMPLATE})}


def test_a_claim_is_made_for_one_pod_and_goes_with_it(pods, until):
    pods.make("one", "echo x > /data/a; sleep 100", spec=SCRATCH, container=mounted("/data"))
    pods.phase("one", "Running")
    found = pods.core.read_namespaced_persistent_volume_claim("one-v", pods.namespace)
    assert found.status.phase == "Bound" and found.metadata.labels == {"a": "b"}
    assert [owner.name for owner in found.metadata.owner_references] == ["one"]
    pods.core.delete_namespaced_persistent_volume_claim("one-v", pods.namespace)
    used = pods.core.read_namespaced_persistent_volume_claim("one-v", pods.namespace)
    assert used.metadata.deletion_timestamp and used.metadata.finalizers == ["kubernetes.io/pvc-protection"]
    pods.core.delete_namespaced_pod("one", pods.namespace, grace_period_seconds=0)
    until(lambda: not pods.core.list_namespaced_persistent_volume_claim(pods.namespace).items, timeout=60)


def test_a_claim_that_was_made_for_nobody_is_not_taken(pods, until):
    pods.core.create_namespaced_persistent_volume_claim(pods.namespace, claim("one-v"))
    pods.make("one", "true", spec=SCRATCH, container=mounted("/data"))
    said = f"PVC {pods.namespace}/one-v was not created for pod {pods.namespace}/one (pod is not owner)"

    def why():
        conditions = pods.core.read_namespaced_pod("one", pods.namespace).status.conditions or ()
        return [one.message for one in conditions if one.message]

    until(lambda: said in "".join(why()), timeout=60)


def test_a_part_of_a_claim_is_made_and_may_be_read_only(pods, runs):
    mounts = [{"name": "v", "mountPath": "/part", "subPath": "a/b"},
              {"name": "v", "mountPath": "/again", "subPath": "a", "readOnly": True},
              {"name": "v", "mountPath": "/named", "subPathExpr": "of-$(NAME)"}]  # fmt: skip
    words = {"volumeMounts": mounts, "env": [{"name": "NAME", "value": "one"}]}
    script = "echo x > /part/c; echo y > /named/d; cat /again/b/c; echo z > /again/e || echo refused"
    pods.make("one", script, spec=OF_THE_CLAIM, container=words)
    pods.phase("one", "Succeeded")
    assert {"x", "refused"} <= set(pods.log("one").splitlines())
    assert sorted(path.name for path in runs.rglob("*") if path.is_file()) == ["c", "d"]
    assert (runs / "of-one" / "d").read_text() == "y\n"


def test_a_whole_claim_may_be_read_only(pods, runs):
    only = {"volumes": volume("persistentVolumeClaim", {"claimName": "runs", "readOnly": True})}
    pods.make("one", "echo x > /data/a", spec=only, container=mounted("/data"))
    pods.phase("one", "Failed")
    assert list(runs.iterdir()) == []


def test_a_claim_without_a_directory_gets_one(pods):
    pods.core.create_namespaced_persistent_volume_claim(pods.namespace, claim("new"))
    spec = {"volumes": volume("persistentVolumeClaim", {"claimName": "new"})}
    container = mounted("/data") | {"securityContext": {"runAsUser": 1234}}
    pods.make("one", "echo x >> /data/a", spec=spec, container=container)
    pods.phase("one", "Succeeded")
    pods.make("two", "cat /data/a", spec=spec, container=container)
    pods.phase("two", "Succeeded")
    assert pods.log("two") == "x\n"


def test_everybody_may_write_into_an_empty_directory(pods):
    container = mounted("/scratch") | {"securityContext": {"runAsUser": 1234}}
    script = "ls /scratch | wc -l; echo x > /scratch/a; cat /scratch/a"
    for name in ("one", "two"):
        pods.make(name, script, spec={"volumes": volume("emptyDir", {})}, container=container)
    for name in ("one", "two"):
        pods.phase(name, "Succeeded")
        assert pods.log(name) == "0\nx\n"


def test_shared_memory_is_as_large_as_the_pod_wishes(pods):
    about = {"medium": "Memory", "sizeLimit": "3Mi"}
    script = "df -k /dev/shm | tail -1; grep ' /dev/shm ' /proc/mounts; dd if=/dev/zero of=/dev/shm/a bs=1M count=4"
    pods.make("one", script, spec={"volumes": volume("emptyDir", about)}, container=mounted("/dev/shm"))
    pods.phase("one", "Failed")
    log = pods.log("one")
    assert " 3072 " in log and "tmpfs /dev/shm tmpfs" in log and "No space left on device" in log


def test_memory_outlives_the_containers_that_use_it(pods):
    mounts = mounted("/m")
    first = [{"name": "first", "image": pods.image, "command": ["sh", "-c", "echo x > /m/a"], **mounts}]
    spec = {"initContainers": first, "volumes": volume("emptyDir", {"medium": "Memory"})}
    pods.make("one", "cat /m/a", spec=spec, container=mounts)
    pods.phase("one", "Succeeded")
    assert pods.log("one", container="main") == "x\n"


def test_config_maps_and_secrets_are_files(pods):
    pods.core.create_namespaced_config_map(pods.namespace, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}})
    secret = {"metadata": {"name": "s"}, "data": {"key": base64.b64encode(b"hidden").decode()}}
    pods.core.create_namespaced_secret(pods.namespace, secret)
    volumes = [
        {"name": "all", "configMap": {"name": "c"}},
        {"name": "some", "configMap": {"name": "c", "items": [{"key": "b", "path": "x/y"}]}},
        {"name": "hidden", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "none", "configMap": {"name": "absent", "optional": True}},
        {"name": "both", "projected": {"sources": [
            {"secret": {"name": "s"}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}},
    ]  # fmt: skip
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    script = """
        cd /; for file in all/a all/b some/x/y hidden/key both/key both/name; do echo "$file=$(cat $file)"; done
        ls all some none | tr '\\n' ' '; stat -c %a hidden/key; echo no > all/a || echo refused
    """
    pods.make("one", script, spec={"volumes": volumes}, container={"volumeMounts": mounts})
    pods.phase("one", "Succeeded")
    said = [line for line in pods.log("one").splitlines() if not line.startswith("sh: ")]  # of another stream
    assert said[:6] == ["all/a=1", "all/b=2", "some/x/y=2", "hidden/key=hidden", "both/key=hidden", "both/name=one"]
    assert said[6].split() == ["all:", "a", "b", "none:", "some:", "x", "400"] and said[-1] == "refused"


def test_a_pod_waits_for_the_config_map_of_a_volume(pods):
    spec = {"volumes": volume("configMap", {"name": "late"})}
    pods.make("one", "cat /c/a", spec=spec, container=mounted("/c"))
    pods.until(lambda: "FailedMount" in pods.events("one"), timeout=60)
    assert pods.events("one")["FailedMount"] == 'MountVolume.SetUp failed for volume "v" : configmap "late" not found'
    pods.waits("one", "ContainerCreating")
    pods.core.create_namespaced_config_map(pods.namespace, {"metadata": {"name": "late"}, "data": {"a": "1"}})
    pods.phase("one", "Succeeded")
    assert pods.log("one") == "1"


def test_variables_come_from_the_pod_and_from_config_maps(pods):
    pods.core.create_namespaced_config_map(pods.namespace, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    none = {"name": "c", "key": "none", "optional": True}
    secret = {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}}
    pods.core.create_namespaced_secret(pods.namespace, secret)
    fields = {"NAME": "metadata.name", "SPACE": "metadata.namespace", "ID": "metadata.uid", "IP": "status.podIP",
              "NODE": "spec.nodeName", "LABEL": "metadata.labels['run']", "HOST": "status.hostIP"}  # fmt: skip
    env = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    env += [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
            {"name": "NONE", "valueFrom": {"configMapKeyRef": none}}]  # fmt: skip
    every = [{"prefix": "P_", "configMapRef": {"name": "c"}}]
    script = "echo $NAME $SPACE $ID $IP $NODE $LABEL $HOST $A $KEY ${NONE-unset} $P_a"
    pods.make("one", script, container={"env": env, "envFrom": every}, labels={"run": "r1"})
    pod = pods.phase("one", "Succeeded")
    status, metadata = pod.status, pod.metadata
    assert pods.log("one").split() == [
        "one", pods.namespace, metadata.uid, status.pod_ip, pod.spec.node_name, "r1", status.host_ip,
        "1", "hidden", "unset", "1",
    ]  # fmt: skip


def test_a_container_waits_for_the_config_map_of_a_variable(pods):
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}]
    pods.make("one", "echo $A", container={"env": env})
    pods.waits("one", "CreateContainerConfigError")
    assert pods.state("one").waiting.message == 'configmap "late" not found'
    pods.core.create_namespaced_config_map(pods.namespace, {"metadata": {"name": "late"}, "data": {"a": "1"}})
    pods.phase("one", "Succeeded")
    assert pods.log("one") == "1\n"
