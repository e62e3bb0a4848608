"""`chaoskit kubernetes check` as a user runs it: exit codes, and one sentence with a remedy for each bad input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from chaoskit.cli import main
from chaoskit.errors import ExitCode
from tests.environments.kubernetes.a_job import a_job, with_scratch
from tests.environments.kubernetes.scripted_server import Scripted, status
from tests.environments.kubernetes.staged_cluster import StagedCluster
from tests.environments.kubernetes.test_kubeconfig import config

SOUND = ("--context", "staging", "--namespace", "staging")


@pytest.fixture
def check(tmp_path, capfd, monkeypatch):
    """Check a cluster; answers with the exit code, standard output, standard error and the requests of the server."""
    monkeypatch.setattr("chaoskit.cli.kubernetes.PATIENCE", 0.0)

    def run(*words, cluster=None, contexts=("staging", "eu-prod"), options=SOUND):
        with (cluster or StagedCluster()).serve() as script:
            path = tmp_path / "config"
            path.write_text(yaml.safe_dump(config(*contexts, current=contexts[0], server=script.address)))
            monkeypatch.setenv("KUBECONFIG", str(path))
            try:
                code = main.main(["kubernetes", "check", *options, *words])
            except SystemExit as end:
                code = end.code
        said = capfd.readouterr()
        return code, said.out, said.err, script.requests

    return run


def test_everything_is_there(check):
    code, out, err, _ = check()
    assert (code, err) == (ExitCode.PASS, "")
    assert re.search(r"^ok +version +v1.36.0", out, re.M) and re.search(r"^ok +Chaos Mesh +serves v1alpha1", out, re.M)
    assert "Not checked: whether nodes have room" in out and out.endswith("All that is needed is there.\n")


def test_something_is_missing(check):
    cluster = StagedCluster(allows=lambda group, resource, verb: (resource, verb) != ("pods/log", "get"))
    code, out, _, _ = check(cluster=cluster)
    assert code == ExitCode.INCONCLUSIVE
    assert re.search(r"^-- +permission on pods/log +not allowed: get", out, re.M)
    rule = 'add to the Role: {apiGroups: [""], resources: [pods/log], verbs: [get]}'
    assert rule in " ".join(out.split())
    assert "Missing: permission on pods/log.\nchaoskit kubernetes check --role prints" in out


def test_what_is_not_needed_does_not_change_the_exit_code(check):
    code, out, _, _ = check(cluster=StagedCluster(kinds=(), quotas=None))
    assert code == ExitCode.PASS and re.search(r"^-- +Chaos Mesh +not installed", out, re.M)


def test_the_role_is_all_that_is_printed(check):
    code, out, err, _ = check("--role")
    assert (code, err) == (ExitCode.PASS, "")
    assert [one["kind"] for one in yaml.safe_load_all(out)] == ["Role", "RoleBinding"]


@pytest.mark.parametrize(("word", "has_chaos"), [("plain", False), ("chaos-mesh", True)])
def test_the_role_without_chaos_mesh_and_with_it(check, word, has_chaos):
    _, out, _, _ = check("--role", word, cluster=StagedCluster(kinds=()))
    role, _ = yaml.safe_load_all(out)
    assert any("chaos-mesh.org" in rule["apiGroups"] for rule in role["rules"]) is has_chaos


@pytest.mark.parametrize("word", ["plain", "laptop"])
def test_the_role_grants_volume_claims_to_a_job_template_that_makes_some_and_to_no_other(
    check, word, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("chaoskit.toml").write_text("[kubernetes]\njob-template = 'job.yaml'")
    lists = lambda group, resource, verb: (resource, verb) != ("persistentvolumeclaims", "list")  # noqa: E731
    for template, rules in ((a_job(), []), (with_scratch(a_job()), [["list", "delete"]])):
        Path("job.yaml").write_text(yaml.safe_dump(template))
        _, out, _, _ = check("--role", word)
        role, _ = yaml.safe_load_all(out)
        assert [each["verbs"] for each in role["rules"] if "persistentvolumeclaims" in each["resources"]] == rules
        code, out, _, _ = check(cluster=StagedCluster(allows=lists))
        assert code == ExitCode.PASS and ("permission on persistentvolumeclaims" in out) is bool(rules)


def test_findings_as_json(check, tmp_path):
    code, out, _, _ = check("--json", "-")
    assert code == ExitCode.PASS and json.loads(out)["missing"] == []
    refusal = status(403, "Forbidden", 'admission webhook "g" denied the request: no')
    cluster = StagedCluster(refusals={"services": refusal})
    code, out, _, _ = check("--json", str(tmp_path / "found.json"), cluster=cluster)
    found = json.loads((tmp_path / "found.json").read_text())
    assert code == ExitCode.INCONCLUSIVE and found["missing"] == ["admission of services"]
    assert {one["what"]: one["good"] for one in found["findings"]}["admission of pods"] is True
    assert "prints the Role" not in out
    code, _, err, requests = check("--json", "/none/found.json")
    assert code == ExitCode.USAGE and "'/none/found.json' is in /none" in err and requests == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--namespace is missing"),
        (("--context", "staging"), "--namespace is missing"),
        (("--namespace", "staging"), "no context is named, .* never takes the current one; there are eu-prod, staging"),
        (("--context", "stagin", "--namespace", "staging"), "no context 'stagin' in .*; did you mean 'staging'"),
        (("--context", "staging", "--namespace", "Staging"), "must be the name of a namespace"),
        (("--context", "staging", "--namespace", "kube-system"), "use a namespace of your own"),
        (("--context", "eu-prod", "--namespace", "staging"), "looks like production .*add --i-mean eu-prod"),
        (("--context", "eu-prod", "--namespace", "staging", "--i-mean", "prod"), "repeat exactly that name"),
        ((*SOUND, "--in-cluster"), "exclude each other"),
        (("--kubeconfig", "x", "--namespace", "staging", "--in-cluster"), "--kubeconfig exclude each other"),
        (("--namespace", "staging", "--in-cluster"), "not a pod with a service account"),
        (("--context", "a", "--namespace", "staging", "--kubeconfig", "/none"), "no kubeconfig at /none"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_before_anything_is_asked(check, options, said, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    code, out, err, requests = check(options=options)
    assert (code, out, requests) == (ExitCode.USAGE, "", [])
    assert re.fullmatch(f"chaoskit: .*{said}.*\n", err), err


@pytest.mark.parametrize("words", [(), ("--role",)])
@pytest.mark.parametrize(
    ("cluster", "code", "said"),
    [
        (StagedCluster(answers={"/apis": status(401, "Unauthorized", "no")}), ExitCode.USAGE, "log in to the cluster"),
        (StagedCluster(answers={"/apis": Scripted(503, "")}), ExitCode.INTERNAL, "try again later"),
        (StagedCluster(answers={"/apis": Scripted(200, "<html>")}), ExitCode.INTERNAL, "does not answer"),
    ],
)
def test_a_cluster_that_cannot_be_asked_is_one_sentence(check, words, cluster, code, said):
    found, out, err, _ = check(*words, cluster=cluster)
    assert (found, out) == (code, "")
    assert re.fullmatch(f"chaoskit: cannot [^\n]*{said}[^\n]*\n", err), err


def test_a_namespace_that_is_not_there(check):
    code, _, err, _ = check(cluster=StagedCluster(namespace=404))
    assert code == ExitCode.USAGE and "kubectl create namespace staging" in err


def test_production_that_is_meant(check):
    options = ("--context", "eu-prod", "--namespace", "staging", "--i-mean", "eu-prod")
    assert check(options=options)[0] == ExitCode.PASS


def test_the_command_needs_its_second_word():
    done = subprocess.run([sys.executable, "-m", "chaoskit", "kubernetes"], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.USAGE and "required: COMMAND" in done.stderr
