"""`chaoskit run --dry-run`: the server accepts every object, and has none afterwards."""

from __future__ import annotations

import pytest
import yaml

from chaoskit.cli.main import main
from chaoskit.environments.kubernetes.selectors import OWNER, RUN
from chaoskit.errors import ExitCode


@pytest.fixture
def words(cluster, tmp_path):
    place = ["--context", cluster.context, "--kubeconfig", str(cluster.kubeconfig), "--namespace", cluster.namespace]
    store = ["--dir", str(tmp_path / "ckpt" / "store"), "--volume", f"runs:{tmp_path}/ckpt", "--address", "192.0.2.7"]
    return ["run", "--env", "kubernetes", "--nodes", "2", *place, *store, "--dry-run"]


JOB = ["--", "torchrun", "train.py", "--out", "{out}"]


def test_every_object_is_printed_and_none_is_made(words, cluster, tmp_path, capsys, connection):
    from kubernetes import client, config

    assert main([*words, "--image", "trainer:1", *JOB]) == ExitCode.PASS
    told = capsys.readouterr().out
    found = list(yaml.safe_load_all(told))
    assert [each["kind"] for each in found] == ["ConfigMap", "Service", "Pod", "Pod"]
    labels = [each["metadata"]["labels"] for each in found]
    assert {each[RUN] for each in labels} == {"dry-run"}
    assert {each[OWNER] for each in labels[1:]} == {found[0]["metadata"]["uid"]}
    command = found[2]["spec"]["containers"][0]["command"]
    assert command[4] == "tcp://192.0.2.7:PORT" and str(tmp_path / "ckpt" / "store") in command[3]
    assert "has made none" in told and "none, since nothing of the run is there yet" in told
    with config.new_client_from_config(str(cluster.kubeconfig), context=cluster.context) as api:
        core = client.CoreV1Api(api)
        assert not core.list_namespaced_pod(cluster.namespace).items
        assert not core.list_namespaced_service(cluster.namespace).items
        names = [one.metadata.name for one in core.list_namespaced_config_map(cluster.namespace).items]
        assert not [name for name in names if name.startswith("chaoskit")]
    assert not (tmp_path / "ckpt").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "needs --image"),
        (["--image", "trainer:1", "--volume", "runs:/elsewhere"], "is not on the volume of the claim 'runs'"),
        (["--image", "trainer:1", "--namespace", "kube-system"], "one of the cluster itself"),
        (["--image", "trainer:1", "--context", "absent"], "there is no context 'absent'"),
        (["--env", "docker"], "--dry-run is for --env kubernetes"),
        (["--image", "trainer:1", "--address", "127.0.0.1"], "pods cannot reach chaoskit at 127.0.0.1"),
    ],
)
def test_what_cannot_be_tried_is_said(words, more, said, capsys):
    assert main([*words, *more, *JOB]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told


@pytest.mark.parametrize(
    ("study", "code", "said"),
    [
        ("crash-states", ExitCode.INCONCLUSIVE, "needs CanShowDirectory, which environment 'kubernetes' lacks"),
        ("sdc-map", ExitCode.USAGE, "needs --namespace NAME and --volume CLAIM:PATH"),
    ],
)
def test_a_study_in_a_cluster(study, code, said, tmp_path, capsys):
    assert main([study, "--env", "kubernetes", "--image", "t:1", "--dir", str(tmp_path), *JOB]) == code
    assert said in capsys.readouterr().err
