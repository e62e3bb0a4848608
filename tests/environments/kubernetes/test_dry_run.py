"""`chaoskit run --dry-run`: the server accepts every object, and has none afterwards."""

from __future__ import annotations

import json

import pytest
import yaml

from chaoskit.cli.main import main
from chaoskit.environments.kubernetes.selectors import OWNER, RUN
from chaoskit.errors import ExitCode
from tests.environments.kubernetes.a_job import a_job, a_job_set, a_pytorch_job, a_train_job, an_elastic_job


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


def test_pods_that_reach_chaoskit_by_files_need_no_address(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chaoskit.toml").write_text('[kubernetes]\nchannel = "volume"\n')
    assert main([*words, "--image", "trainer:1", "--address", "127.0.0.1", *JOB]) == ExitCode.PASS
    pod = list(yaml.safe_load_all(capsys.readouterr().out))[2]
    address = pod["spec"]["containers"][0]["command"][4]
    assert address == f"volume:{tmp_path}/ckpt/store/runs/dry-run/channel"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "needs --image"),
        (["--image", "trainer:1", "--volume", "runs:/elsewhere"], "is not on the volume of the claim 'runs'"),
        (["--image", "trainer:1", "--namespace", "kube-system"], "one of the cluster itself"),
        (["--image", "trainer:1", "--context", "absent"], "there is no context 'absent'"),
        (["--env", "docker"], "--namespace is for --env kubernetes, not for 'docker'"),
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


@pytest.fixture
def template(tmp_path):
    """Writes a job template; returns the words that name it."""

    def write(manifest):
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(manifest))
        return ["--job-template", str(tmp_path / "job.yaml")]

    return write


@pytest.fixture
def without_nodes(words):
    return [word for word in words if word not in ("--nodes", "2")]


def test_a_job_template_is_printed_with_what_is_changed(without_nodes, template, capsys):
    assert main([*without_nodes, *template(a_job())]) == ExitCode.PASS
    told = capsys.readouterr().out
    found = list(yaml.safe_load_all(told))
    assert [each["kind"] for each in found] == ["ConfigMap", "Service", "Job"]
    job, pod = found[2], found[2]["spec"]["template"]
    assert pod["metadata"]["labels"][RUN] == job["metadata"]["labels"][RUN] == "dry-run"
    assert pod["spec"]["containers"][0]["args"][1] == "--rdzv-endpoint=chaoskit-dry-run-0.chaoskit-dry-run:29400"
    changed = [line for line in told.splitlines() if line.startswith("# +")]
    assert any("chaoskit.dev/owner" in line for line in changed)
    assert any("agents.token" in line for line in changed)
    assert any(line.startswith("# -") and "{out}" in line for line in told.splitlines())


@pytest.mark.parametrize(
    ("manifest", "first"),
    [
        (a_job_set(), "chaoskit-dry-run-node-0-0.chaoskit-dry-run"),
        (a_pytorch_job(), "chaoskit-dry-run-master-0"),
        (an_elastic_job(), None),
        (a_train_job(), "chaoskit-dry-run-node-0-0.chaoskit-dry-run"),
    ],
)
def test_the_server_accepts_a_template_of_each_kind(without_nodes, template, crds, manifest, first, capsys):
    assert main([*without_nodes, *template(manifest)]) == ExitCode.PASS
    told = capsys.readouterr().out
    job = list(yaml.safe_load_all(told))[2]
    assert (job["kind"], job["metadata"]["labels"][RUN]) == (manifest["kind"], "dry-run")
    assert first is None or f"--rdzv-endpoint={first}:29400" in json.dumps(job)
    changed = [line for line in told.splitlines() if line.startswith("# +")]
    assert any("chaoskit.dev/owner" in line for line in changed)


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize(
    ("manifest", "more", "said"),
    [
        (a_job(), JOB, "the command of the job is given twice: the job template 'nightly-train' has one; leave out"),
        (a_job(), ["--image", "other:2"], "the job template has the image 'registry/trainer:7', not 'other:2': leave"),
        (a_job(), ["--nodes", "3"], "the job template has 2 pods, and --nodes is 3: leave --nodes out"),
        (a_job(), ["--env", "local"], "--namespace is for --env kubernetes, not for 'local': choose"),
        (a_job("spec.completionMode", "NonIndexed"), [], "has no completionMode: Indexed"),
        (a_job("spec.parallelism", 1), [], "must have the same number of completions and parallelism"),
        (a_job("kind", "CronJob"), [], "has the kind batch/v1 CronJob, which is not supported"),
        (a_job("spec.template.spec.containers.0.command"), [], "write it, since chaoskit starts it"),
        (["a", "b"], [], "is no manifest of an object"),
    ],
)
def test_a_job_template_that_cannot_be_run(words, template, manifest, more, said, dry, capsys):
    assert main([*(words if dry else words[:-1]), *template(manifest), *more]) == ExitCode.USAGE == 2
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told and len(told.splitlines()) == 1, told


def test_a_job_template_that_is_not_there(words, capsys):
    assert main([*words, "--job-template", "absent.yaml"]) == ExitCode.USAGE
    assert "absent.yaml: it cannot be read" in capsys.readouterr().err
