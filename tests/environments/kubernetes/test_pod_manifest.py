"""The manifests of a run: what a pod has of the volume, and what of the user's settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.environments.kubernetes.pod_manifest import VolumePart, look_pod, names_service, node_pod, on_volume
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace

PLACE = ClusterPlace(namespace="staging", claim="runs", path="/ckpt", context="kind")


RUN = (VolumePart(Path("/ckpt/store/runs/r1")),)


def pod(place=PLACE, parts=RUN):
    made = node_pod(
        "p1", node="node0", service="s", place=place, image="trainer:1", command=["python3", "x"],
        variables={"A": "1"}, parts=parts,
    )  # fmt: skip
    return made["spec"]


def test_a_pod_has_parts_of_the_volume_at_the_same_path_as_chaoskit():
    parts = [VolumePart(Path("/ckpt/store"), read_only=True), VolumePart(Path("/ckpt/store/runs/r1"))]
    spec = pod(parts=parts)
    assert spec["volumes"][0] == {"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}}
    assert spec["containers"][0]["volumeMounts"][:2] == [
        {"name": "runs", "mountPath": "/ckpt/store", "subPath": "store", "readOnly": True},
        {"name": "runs", "mountPath": "/ckpt/store/runs/r1", "subPath": "store/runs/r1"},
    ]
    assert pod(parts=[VolumePart(Path("/ckpt"))])["containers"][0]["volumeMounts"][0] == {
        "name": "runs", "mountPath": "/ckpt",
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/elsewhere", "/ckpt2/store", "/"])
def test_what_is_not_on_the_volume_is_refused(path):
    with pytest.raises(UsageError, match=r"not on the volume of the claim 'runs'.*--dir /ckpt/chaoskit"):
        on_volume(PLACE, Path(path))


def test_a_pod_gets_no_privilege_no_credentials_and_an_end():
    spec = pod()
    assert spec["restartPolicy"] == "Never" and spec["automountServiceAccountToken"] is False
    assert spec["activeDeadlineSeconds"] > 0
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys() and "securityContext" not in spec["containers"][0]
    assert (spec["hostname"], spec["subdomain"]) == ("node0", "s")
    assert spec["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert not {"nodeSelector", "tolerations", "imagePullSecrets", "serviceAccountName"} & spec.keys()


def test_the_settings_of_the_user_reach_each_pod():
    place = ClusterPlace(
        namespace="staging", claim="runs", path="/ckpt",
        resources={"limits": {"nvidia.com/gpu": "8"}}, node_selector={"pool": "a"},
        tolerations=[{"key": "gpu", "operator": "Exists"}], pull_secret="registry", service_account="trainer",
    )  # fmt: skip
    spec = pod(place)
    assert spec["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "8"}}
    look = look_pod("l", place=place, image="trainer:1", command=["python3"])["spec"]
    for each in (spec, look):
        assert each["nodeSelector"] == {"pool": "a"} and each["imagePullSecrets"] == [{"name": "registry"}]
        assert each["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
        assert each["serviceAccountName"] == "trainer"
    assert ClusterPlace.from_json(place.to_json()) == place
    assert spec["terminationGracePeriodSeconds"] == 30 and look["terminationGracePeriodSeconds"] == 5
    assert pod(replace(place, grace=90))["terminationGracePeriodSeconds"] == 90


def test_the_service_names_pods_that_are_not_ready_yet():
    spec = names_service("s", {"chaoskit.dev/run": "r1"})["spec"]
    assert spec == {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"chaoskit.dev/run": "r1"}}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"path": "ckpt"}, "path must be absolute"), ({"claim": ""}, "claim must be"), ({"namespace": None}, "namespace"),
     ({"grace": 0}, "grace must be"), ({"grace": 1.5}, "grace must be")],
)
def test_half_a_place_is_refused(wrong, said):
    with pytest.raises(UsageError, match=said):
        ClusterPlace(**{"namespace": "staging", "claim": "runs", "path": "/ckpt", **wrong})
