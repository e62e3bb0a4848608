"""`chaoskit run --env kubernetes` with nodes that are evicted: real torchrun in pods, which get SIGTERM and a grace."""

from __future__ import annotations

import pytest

from chaoskit.errors import ExitCode
from tests.cli.test_run_in_a_cluster import evidence_of, run  # noqa: F401
from tests.environments.kubernetes.conftest import connection  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.launches]


def test_a_good_trainer_saves_within_its_grace(run, machines):  # noqa: F811
    code, found = run("tinymodels.train", "test_evicted")
    assert found["test_evicted"]["verdict"] == "pass", found
    assert code == ExitCode.PASS
    ((_, evidence),) = [one for one in evidence_of(machines, "test_evicted") if one[0] == "fault.observed"]
    assert evidence["sigterm"]["passed_on"] and evidence["sigterm"]["delivered"] and evidence["gone"]
    assert 0 < evidence["ended"] < evidence["grace"] == 30 and evidence["killed"] is None
    (claim,) = evidence["claimed"]
    assert claim["condition"]["reason"] == "EvictionByEvictionAPI"


def test_a_broken_trainer_is_caught_after_an_eviction(run):  # noqa: F811
    code, found = run("tinymodels.gallery.rng_missing", "test_evicted")
    assert code == ExitCode.FAIL
    assert "rng-not-restored" in found["test_evicted"]["codes"]
