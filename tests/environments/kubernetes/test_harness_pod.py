"""The pod of chaoskit itself: what it has, and that a server accepts it under strict validation."""

from __future__ import annotations

import pytest
from kubernetes import client, config

from chaoskit.environments.kubernetes.harness_pod import HOME, harness_pod
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace
from tests.kubernetes_server.pod_values import expand

PLACE = ClusterPlace(
    namespace="staging", claim="runs", path="/mnt/runs", resources={"limits": {"nvidia.com/gpu": "8"}},
    node_selector={"pool": "staging"}, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
    pull_secret="registry", service_account="trainer",
)  # fmt: skip


def pod(place=PLACE, **more):
    given = {"image": "chaoskit:1", "arguments": ["run"], "service_account": "chaoskit"} | more
    return harness_pod(place, **given)


def test_chaoskit_has_the_claim_its_address_and_its_account():
    spec = pod(arguments=["nightly", "--nodes", "2"])
    (container,) = spec["containers"]
    assert container["command"] == ["chaoskit", "nightly", "--nodes", "2"]
    assert container["volumeMounts"][0] == {"name": "runs", "mountPath": "/mnt/runs"}
    assert spec["volumes"][0] == {"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}}
    variables = {each["name"]: each for each in container["env"]}
    assert variables["POD_IP"]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("chaoskit", True)
    assert spec["restartPolicy"] == "Never" and "activeDeadlineSeconds" not in spec


def test_it_can_write_where_programs_write_whoever_it_is():
    spec = pod()
    empty = {each["name"] for each in spec["volumes"] if each.get("emptyDir") == {}}
    mounts = spec["containers"][0]["volumeMounts"]
    assert {each["mountPath"] for each in mounts if each["name"] in empty} == {"/tmp", HOME}
    assert {"name": "HOME", "value": HOME} in spec["containers"][0]["env"]


def test_it_has_no_privileges_and_no_device_of_the_job():
    spec = pod()
    assert spec["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}
    assert not {"hostNetwork", "hostPID", "hostIPC", "securityContext"} & spec.keys()
    assert "resources" not in spec["containers"][0]
    own = {"requests": {"cpu": "1"}, "limits": {"memory": "4Gi"}}
    assert pod(resources=own)["containers"][0]["resources"] == own


def test_it_goes_where_the_job_goes_and_ends_in_time():
    spec = pod(deadline=7200.5)
    assert spec["nodeSelector"] == {"pool": "staging"} and spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert spec["activeDeadlineSeconds"] == 7200
    bare = pod(ClusterPlace(namespace="staging", claim="runs", path="/mnt/runs"))
    assert not {"nodeSelector", "tolerations", "imagePullSecrets"} & bare.keys()


def test_the_cluster_puts_no_variables_into_its_words():
    words = ["--", "sh", "-c", "echo $(POD_IP) $$ $HOME {out}"]
    written = pod(arguments=words)["containers"][0]["command"][1:]
    assert [expand(word, {"POD_IP": "10.0.0.1"}) for word in written] == words


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"image": ""}, "image must be"),
        ({"service_account": ""}, "service_account must be"),
        ({"service_account": "Chaos_Kit"}, "not 'Chaos_Kit'"),
        ({"deadline": 0}, "deadline must be a number from 1"),
        ({"place": ClusterPlace(namespace="n", claim="c", path="/tmp/")}, "the volume cannot be at /tmp/"),
    ],
)
def test_bad_input_is_named(wrong, said):
    with pytest.raises(UsageError, match=said):
        pod(**wrong)


def test_a_server_takes_it_under_strict_validation(cluster):
    spec = pod(deadline=60, resources={"requests": {"cpu": "500m"}, "limits": {"memory": "4Gi"}})
    with config.new_client_from_config(str(cluster.kubeconfig), context=cluster.context) as api:
        core, batch = client.CoreV1Api(api), client.BatchV1Api(api)
        core.create_namespaced_service_account(cluster.namespace, {"metadata": {"name": "chaoskit"}})
        strictly = {"dry_run": "All", "field_validation": "Strict"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "harness"}, "spec": spec}
        made = core.create_namespaced_pod(cluster.namespace, body, **strictly)
        assert made.spec.service_account_name == "chaoskit"
        jobs = {"spec": {"template": {"spec": spec}}}
        night = {"spec": {"schedule": "0 2 * * *", "jobTemplate": jobs}, "metadata": {"name": "nightly"}}
        night |= {"apiVersion": "batch/v1", "kind": "CronJob"}
        batch.create_namespaced_cron_job(cluster.namespace, night, **strictly)
