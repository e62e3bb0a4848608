"""`chaoskit run --env kubernetes` with nodes that are evicted: real torchrun in pods, which get SIGTERM and a grace."""

from __future__ import annotations

import re
import shutil

import pytest

from chaoskit.errors import ExitCode
from tests.cli.test_run_in_a_cluster import evidence_of, run  # noqa: F401
from tests.environments.kubernetes.conftest import connection  # noqa: F401
from tests.users import REPOSITORY

pytestmark = pytest.mark.launches


@pytest.mark.slow
def test_a_good_trainer_saves_within_its_grace(run, machines):  # noqa: F811
    code, found = run("tinymodels.train", "test_evicted")
    assert found["test_evicted"]["verdict"] == "pass", found
    assert code == ExitCode.PASS
    ((_, evidence),) = [one for one in evidence_of(machines, "test_evicted") if one[0] == "fault.observed"]
    assert evidence["sigterm"]["passed_on"] and evidence["sigterm"]["delivered"] and evidence["gone"]
    assert 0 < evidence["ended"] < evidence["grace"] == 30 and evidence["killed"] is None
    (claim,) = evidence["claimed"]
    assert claim["condition"]["reason"] == "EvictionByEvictionAPI"


@pytest.mark.exhaustive
def test_a_good_trainer_goes_on_on_another_machine(run, machines):  # noqa: F811
    code, found = run("tinymodels.train", "test_drained")
    assert found["test_drained"]["verdict"] == "pass", found
    assert code == ExitCode.PASS
    ((_, evidence),) = [one for one in evidence_of(machines, "test_drained") if one[0] == "fault.observed"]
    assert {evidence["machine"], evidence["fresh"]["machine"]} == {"node-0", "node-1"}
    assert evidence["sigterm"]["delivered"] and 0 < evidence["ended"] < evidence["grace"] == 30


@pytest.mark.exhaustive  # in CI it is caught on pods after a kill, and another one after an eviction, below
def test_a_broken_trainer_is_caught_after_an_eviction(run):  # noqa: F811
    code, found = run("tinymodels.gallery.rng_missing", "test_evicted")
    assert code == ExitCode.FAIL
    assert "rng-not-restored" in found["test_evicted"]["codes"]


@pytest.mark.parametrize(
    ("grace", "code"),
    [
        pytest.param(5, ExitCode.FAIL, marks=pytest.mark.slow),
        pytest.param(90, ExitCode.PASS, marks=pytest.mark.exhaustive),
    ],
)
def test_a_grace_that_is_too_short_for_the_save_is_found(run, machines, tmp_path, grace, code):  # noqa: F811
    shutil.copy(REPOSITORY / "tests" / "trainers" / "slow_leaver.py", machines.volume / "store" / "code")
    (tmp_path / "chaoskit.toml").write_text(f'[variables]\nSLOW_LEAVER = "15"\n[kubernetes]\ngrace = {grace}\n')
    ended, found = run("slow_leaver", "test_evicted")
    one = found["test_evicted"]
    ((_, evidence),) = [each for each in evidence_of(machines, "test_evicted") if each[0] == "fault.observed"]
    assert evidence["grace"] == grace
    if grace == 5:
        assert one["codes"] == ["grace-too-short"] and evidence["killed"] > 4 and evidence["grace_used_up"], one
        (said,) = one["sentences"]
        # Which of the two ranks is on the last node is up to torchrun.
        assert re.search(r"at the end of its grace of 5 s, while rank [01] was in a save that it had begun", said)
    else:
        assert evidence["ended"] > 15 and not one["codes"], one
    assert ended == code


@pytest.mark.exhaustive
def test_a_schedule_evicts_one_node_after_the_other(run, machines):  # noqa: F811
    options = ("--every", "30s", "--during", "60s", "--notices", "kubernetes")
    args = ("--epochs", "4", "--step-delay", "0.5")
    code, found = run("tinymodels.train", "preempted_again_and_again", *args, options=options)
    assert code == ExitCode.PASS and found["test_preempted_again_and_again[kubernetes]"]["verdict"] == "pass", found
    every = [each for kind, each in evidence_of(machines, "preempted_again") if kind == "fault.observed"]
    assert every and all(each["sigterm"]["delivered"] and 0 < each["ended"] < each["grace"] == 30 for each in every)
