"""`chaoskit run --job-template`: the team's own Indexed Job is what runs, under the controller of Jobs."""

from __future__ import annotations

import json

import pytest
import yaml

from chaoskit.errors import ExitCode
from tests.cli.runs_on_pods import RunsOnPods, of_torchrun
from tests.environments.kubernetes.conftest import connection  # noqa: F401

pytestmark = pytest.mark.launches


@pytest.fixture
def run(machines, connection, tmp_path):  # noqa: F811
    """Runs experiments on the team's own Job; returns the exit code and the results by name."""
    runs = RunsOnPods(machines, connection, tmp_path)
    machines.kubelet.jobs.back_off = 1.0

    def experiments(module, chosen, **spec):
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(of_torchrun(str(runs.script), **spec)))
        return runs.experiments(module, chosen, "--job-template", "job.yaml")

    return experiments


@pytest.mark.exhaustive
def test_a_good_trainer_passes_as_the_teams_own_job(run):
    code, found = run("tinymodels.train", "one_rank_mid_epoch or worker_node or test_suspended")
    assert {name: each["verdict"] for name, each in found.items()} == {
        "test_one_rank_mid_epoch": "pass",
        "test_worker_node": "pass",
        "test_suspended": "pass",
    }, found
    assert code == ExitCode.PASS


@pytest.mark.exhaustive
def test_a_broken_trainer_is_caught_and_named_as_the_teams_own_job(run):
    code, found = run("tinymodels.gallery.rng_missing", "one_rank_mid_epoch")
    assert code == ExitCode.FAIL
    assert "rng-not-restored" in json.dumps(found["test_one_rank_mid_epoch"])


def final(*codes):
    """A policy that takes these exit codes as final."""
    on = {"containerName": "trainer", "operator": "In", "values": list(codes)}
    return {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": on}]}}


@pytest.mark.slow
def test_a_policy_that_takes_an_exit_code_of_torchrun_as_final_is_a_finding(run):
    code, found = run("tinymodels.train", "one_rank_mid_epoch", max_restarts=0, **final(42, 1))
    (one,) = found.values()
    assert code == ExitCode.FAIL and one["verdict"] == "fail", one
    assert "failure-policy-final" in one["codes"]
    told = json.dumps(one)
    assert "the podFailurePolicy of the Job takes exit code 1 (rule 0, FailJob) as final" in told


@pytest.mark.exhaustive
def test_a_budget_of_restarts_that_is_spent_is_a_finding(run):
    code, found = run("tinymodels.train", "one_rank_mid_epoch", max_restarts=0, backoffLimit=0)
    (one,) = found.values()
    assert code == ExitCode.FAIL and "restart-budget-spent" in one["codes"], one
    assert "the Job had no restart left (backoffLimit: 0, pods failed: " in json.dumps(one)


@pytest.mark.exhaustive
def test_a_repaired_manifest_passes(run):
    code, found = run("tinymodels.train", "one_rank_mid_epoch", max_restarts=0, **final(42))
    assert code == ExitCode.PASS, found
