"""`chaoskit kubernetes manifest`: what it prints, that a server takes it, and that it makes and asks nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml
from kubernetes import client, config

from chaoskit.cli import configuration
from chaoskit.cli.main import main, make_parser
from chaoskit.cli.toml_text import toml_value
from chaoskit.environments.kubernetes import permissions
from chaoskit.environments.kubernetes.night_manifest import is_schedule
from chaoskit.errors import ExitCode
from tests.environments.kubernetes.a_job import a_job, with_scratch

FILE = """
command = "torchrun --nproc-per-node 8 train.py --out {out}"
env = "kubernetes"
namespace = "chaos-nightly"
volume = "runs:/mnt/runs"
context = "staging"
kubeconfig = "config.yaml"
address = "192.0.2.7"
image = "registry/our-trainer:tag"
nodes = 2
variables = {A = "$(HOME)", B = 2}

[kubernetes]
resources = {limits = {"nvidia.com/gpu" = "8"}}
tolerations = [{key = "nvidia.com/gpu", operator = "Exists"}]
pull-secret = "registry"
grace = 90

[nightly]
gpus = 32

[[accept]]
code = "rng-not-restored"
reason = "it's \\"known\\""
until = 2027-06-01
"""
IMAGE = ["--harness-image", "registry/chaoskit:1"]


@pytest.fixture
def manifest(tmp_path, monkeypatch, capsys):
    """Prints the manifests of a project; the exit code, the objects by kind, and what was complained of."""
    monkeypatch.chdir(tmp_path)

    def call(*words, file=FILE, job=()):
        Path("chaoskit.toml").write_text(file)
        try:
            code = main(["kubernetes", "manifest", *words, *(["--", *job] if job else [])])
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        found = list(yaml.safe_load_all(said.out)) if code == ExitCode.PASS else []
        return code, {each["kind"]: each for each in found}, said.err

    return call


def settings(found, tmp_path):
    """What chaoskit reads in the pod."""
    place = tmp_path / "pod"
    place.mkdir()
    (place / "chaoskit.toml").write_text(found["ConfigMap"]["data"]["chaoskit.toml"])
    return configuration.read(place)


def test_the_pod_reads_what_the_project_says(manifest, tmp_path):
    code, found, _ = manifest(*IMAGE, "--minutes", "120", "--publish", "s3://bucket/pages", "--every", "30m",
                              "--during", "6h", "--strict")  # fmt: skip
    assert code == ExitCode.PASS
    assert list(found) == ["ServiceAccount", "Role", "RoleBinding", "ConfigMap", "CronJob"]
    told, own = settings(found, tmp_path), configuration.read(Path.cwd())
    assert (told.command, told.variables, told.pods) == (own.command, own.variables, own.pods)
    assert [(one.code, one.reason, one.until) for one in told.acceptances] == [
        (one.code, one.reason, one.until) for one in own.acceptances
    ]
    assert told.night == {"minutes": 120.0, "gpus": 32, "publish": "s3://bucket/pages"}
    assert told.values["dir"] == "/mnt/runs/chaoskit" and told.values["every"] == "30m"
    assert not {"context", "kubeconfig", "address"} & told.values.keys()
    (container,) = pod(found)["containers"]
    assert container["command"] == ["chaoskit", "nightly", "--strict"]
    assert make_parser().parse_args(container["command"][1:]).strict


def pod(found):
    return found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_the_command_line_wins_over_the_file(manifest, tmp_path):
    job = ["torchrun", "b.py", "{out}"]
    _, found, _ = manifest(*IMAGE, "--nodes", "4", "--gpus", "64", "--dir", "/mnt/runs/nights", job=job)
    told = settings(found, tmp_path)
    assert (told.command, told.values["nodes"], told.night["gpus"]) == (("torchrun", "b.py", "{out}"), "4", 64)
    assert told.values["dir"] == "/mnt/runs/nights"


def test_the_job_template_goes_along(manifest, tmp_path):
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    template = a_job("spec.template.spec.nodeSelector", {"pool": "staging"})
    template["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    Path("deploy").mkdir()
    Path("deploy/job.yaml").write_text(yaml.safe_dump(template))
    lines = ["namespace = 'chaos-nightly'", "volume = 'runs:/mnt/runs'", "[kubernetes]"]
    code, found, err = manifest(*IMAGE, file="\n".join([*lines, "job-template = 'deploy/job.yaml'"]))
    assert code == ExitCode.PASS, err
    (tmp_path / "pod").mkdir()
    for name, text in found["ConfigMap"]["data"].items():
        (tmp_path / "pod" / name).write_text(text)
    told = configuration.read(tmp_path / "pod")
    assert told.command == () and told.pods == {"job_template": str(tmp_path / "pod" / "job-template.yaml")}
    assert yaml.safe_load((tmp_path / "pod" / "job-template.yaml").read_text()) == template
    assert pod(found)["nodeSelector"] == {"pool": "staging"}
    rules = [rule.as_manifest() for rule in (*permissions.WITH_TEMPLATE, *permissions.FOR_EVICTION)]
    assert found["Role"]["rules"] == rules
    Path("deploy/job.yaml").write_text(yaml.safe_dump(with_scratch(template)))
    more = manifest(*IMAGE, "--job-template", "deploy/job.yaml", file="\n".join(lines[:2]))[1]["Role"]["rules"]
    (of_claims,) = [each for each in more if each not in rules]
    assert (of_claims["resources"], of_claims["verbs"]) == (["persistentvolumeclaims"], ["list", "delete"])
    Path("deploy/job.yaml").write_text(yaml.safe_dump(template))
    # By an option it is the same, and the command may not stand beside it.
    assert manifest(*IMAGE, "--job-template", "deploy/job.yaml", file="\n".join(lines[:2]))[1] == found
    code, _, err = manifest(*IMAGE, "--job-template", "deploy/job.yaml", file="\n".join(lines[:2]), job=["a"])
    assert code == ExitCode.USAGE and "the command of the job is given twice" in err


def test_the_cron_job_runs_one_night_at_a_time_and_repeats_none(manifest):
    _, found, _ = manifest(*IMAGE, "--minutes", "90", "--schedule", "30 1 * * 1-5", "--name", "nights",
                           "--harness-cpu", "2", "--harness-memory", "4Gi")  # fmt: skip
    spec = found["CronJob"]["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("30 1 * * 1-5", "Forbid")
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert pod(found)["activeDeadlineSeconds"] == 90 * 60 + 3600 and pod(found)["serviceAccountName"] == "nights"
    resources = pod(found)["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}}
    assert {each["metadata"]["name"] for each in found.values()} == {"nights"}
    assert {each["metadata"]["namespace"] for each in found.values()} == {"chaos-nightly"}


def test_the_role_grants_what_a_run_needs_and_no_more(manifest):
    rules = manifest(*IMAGE)[1]["Role"]["rules"]
    assert rules == [rule.as_manifest() for rule in (*permissions.BASE, *permissions.FOR_EVICTION)]
    more = manifest(*IMAGE, "--chaos-mesh")[1]["Role"]["rules"]
    assert more[: len(rules)] == rules and [rule["apiGroups"] for rule in more[len(rules) :]] == [["chaos-mesh.org"]]
    binding = manifest(*IMAGE)[1]["RoleBinding"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "chaoskit-nightly", "namespace": "chaos-nightly"}
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--harness-image is missing"),
        ([*IMAGE, "--env", "docker"], "is for --env kubernetes, not for 'docker'"),
        ([*IMAGE, "--schedule", "nightly"], "--schedule must be five fields"),
        ([*IMAGE, "--name", "Nights"], "--name must be 1 to 52 lower-case letters"),
        ([*IMAGE, "--dir", "/elsewhere"], "not on the volume of the claim 'runs'"),
        ([*IMAGE, "--report", "pages"], "not on the volume of the claim 'runs'"),
        ([*IMAGE, "--publish", "pages"], "not on the volume of the claim 'runs'"),
        ([*IMAGE, "--volume", "runs:/tmp"], "the volume cannot be at /tmp"),
    ],
)
def test_bad_input_is_one_sentence(manifest, words, said):
    code, _, err = manifest(*words)
    assert code == ExitCode.USAGE and said in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("line", "said"),
    [("image", "--image is missing"), ("namespace", "needs --namespace"), ("command", "the command of the job")],
)
def test_what_the_project_lacks_is_named(manifest, line, said):
    kept = "\n".join(each for each in FILE.splitlines() if not each.startswith(f"{line} ="))
    code, _, err = manifest(*IMAGE, file=kept)
    assert code == ExitCode.USAGE and said in err


@pytest.mark.parametrize("text", ["0 2 * * *", "*/30 0-6 1,15 * MON-FRI", "@daily"])
def test_schedules_of_cron(text):
    assert is_schedule(text)


@pytest.mark.parametrize("text", ["", "0 2 * *", "0 2 * * * *", "@never", "0 2 * * $x"])
def test_what_is_no_schedule(text):
    assert not is_schedule(text)


def test_values_come_back_from_toml():
    import tomllib

    told = {"a": 'q"\\\n\x7fé', "b": [1, 2.5, True], "c": {"d e": ["x"], "f": {}}, "g": shlex.join(["a b"])}
    assert tomllib.loads("".join(f"{key} = {toml_value(value)}\n" for key, value in told.items())) == told


def test_a_server_takes_each_object_under_strict_validation(manifest, cluster):
    _, found, _ = manifest(*IMAGE, "--minutes", "10", "--harness-memory", "4Gi", "--chaos-mesh",
                            "--namespace", cluster.namespace)  # fmt: skip
    with config.new_client_from_config(str(cluster.kubeconfig), context=cluster.context) as api:
        core, batch, rbac = client.CoreV1Api(api), client.BatchV1Api(api), client.RbacAuthorizationV1Api(api)
        makers = {
            "ServiceAccount": core.create_namespaced_service_account,
            "ConfigMap": core.create_namespaced_config_map,
            "Role": rbac.create_namespaced_role,
            "RoleBinding": rbac.create_namespaced_role_binding,
            "CronJob": batch.create_namespaced_cron_job,
        }
        assert set(found) == set(makers)
        for kind, made in found.items():
            makers[kind](cluster.namespace, made, field_validation="Strict")
        assert not batch.list_namespaced_job(cluster.namespace).items
