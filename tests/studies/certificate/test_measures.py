"""Rows that rest on measurements: each is proven, failed and left open by what was measured."""

from dataclasses import replace

import pytest

from chaoskit.analysis.checkpoints.cost import CheckpointCost
from chaoskit.studies.certificate.evidence import CrashStudy, Demands, SeenLoad
from chaoskit.studies.problems.acceptance import Acceptance
from tests.studies.certificate.by_hand import COST, MAP, evidence, states, trial

DURABLE = "test_storage_faults.py::test_durable"
DRILL = "test_storage_faults.py::test_first_store_lost"


@pytest.mark.parametrize(
    ("low", "high", "limit", "state"),
    [
        (0.0, 0.04, 0.05, "proven"), (0.06, 0.2, 0.05, "failed"), (0.01, 0.2, 0.05, "not-tested"),
        (0.06, 0.2, 0.3, "proven"), (0.0, 0.001, 0.0, "not-tested"), (0.01, 0.02, 0.0, "failed"),
    ],
)  # fmt: skip
def test_the_interval_of_the_silent_share_decides(low, high, limit, state):
    one = replace(MAP, low=low, high=high)
    found = states(evidence(maps=(one,), demands=Demands(silent_share=limit)))["silent-corruption"]
    assert found.state == state and found.figures["silent_high"] == high


def test_silent_corruption_can_be_accepted_in_general_and_not_for_one_experiment():
    known = {"maps": (replace(MAP, low=0.1, high=0.2),)}
    general, of_one = (Acceptance("corruption-accepted", "known", experiment=name) for name in ("", "test_nan"))
    assert states(evidence(**known, standing=(general,)))["silent-corruption"].state == "accepted"
    assert states(evidence(**known, standing=(of_one,)))["silent-corruption"].state == "failed"


@pytest.mark.parametrize(
    ("demands", "state"),
    [
        (Demands(), "not-tested"),
        (Demands(mtbf_seconds=18000.0), "not-tested"),
        (Demands(interval_seconds=600.0), "not-tested"),
        (Demands(mtbf_seconds=18000.0, interval_seconds=600.0), "proven"),  # sqrt(2 * 10 s * 5 h) = 600 s
        (Demands(mtbf_seconds=18000.0, interval_seconds=1200.0), "proven"),
        (Demands(mtbf_seconds=18000.0, interval_seconds=1201.0), "failed"),
        (Demands(mtbf_seconds=18000.0, interval_seconds=299.0), "failed"),
        (Demands(mtbf_seconds=18000.0, interval_seconds=600.0, save_seconds=2000.0), "failed"),
    ],
)
def test_the_interval_is_near_the_optimum_or_not(demands, state):
    assert states(evidence(demands=demands))["interval"].state == state


def test_an_unknown_cost_proves_no_interval():
    known = {"costs": (CheckpointCost(2),), "demands": Demands(mtbf_seconds=3600.0, interval_seconds=600.0)}
    found = states(evidence(**known))["interval"]
    assert found.state == "not-tested" and "--save-seconds" in found.sentence
    free = replace(COST, saves=tuple(replace(one, blocking_seconds=0.0) for one in COST.saves))
    assert states(evidence(**{**known, "costs": (free,)}))["interval"].state == "not-tested"


@pytest.mark.parametrize(
    ("load", "state"),
    [
        (SeenLoad("torch.load", "model.pt", True), "proven"), (SeenLoad("safetensors", "m.safetensors"), "proven"),
        (SeenLoad("torch.load", "model.pt", False), "failed"), (SeenLoad("dcp.load", "step-10"), "failed"),
        (SeenLoad("torch.load", "model.pt", None), "not-tested"), (None, "not-tested"),
    ],
)  # fmt: skip
def test_what_a_resume_unpickles(load, state):
    loads = frozenset() if load is None else frozenset({load})
    trials = {
        name: tuple(replace(one, runs=tuple(replace(run, loads=loads) for run in one.runs)) for one in several)
        for name, several in evidence().trials.items()
    }
    found = states(replace(evidence(), trials=trials))["formats"]
    assert found.state == state
    if state == "failed":
        assert found.codes == ("unpickles-freely",) and found.runs
        standing = (Acceptance("unpickles-freely", "only we can write there"),)
        taken = states(replace(evidence(standing=standing), trials=trials))["formats"]
        assert taken.state == "accepted" and taken.reasons == {"unpickles-freely": "only we can write there"}


def test_one_load_that_is_not_restricted_is_enough_to_fail():
    name = "test_resume.py::test_resume"
    one = trial(name)
    bad = replace(one, runs=(replace(one.runs[0], loads=frozenset({SeenLoad("torch.load", "rng.pt", False)})),))
    assert states(evidence({name: bad}))["formats"].state == "failed"


def test_a_job_that_waits_for_its_checkpoints_has_no_second_store():
    one = trial(DRILL)
    waited = replace(one, runs=(replace(one.runs[0], trained=frozenset({0, 2})),))
    found = states(evidence({DRILL: waited}))["disaster"]
    assert found.state == "not-tested" and "waited" in found.sentence


def test_crash_states_count_beside_the_experiment_and_alone():
    good = CrashStudy("run-c", "d", "pass", 120)
    bad = replace(good, verdict="fail", codes=("checkpoint-not-durable",))
    assert states(evidence({DURABLE: None}, crashes=(good,)))["durable"].state == "proven"
    assert states(evidence({DURABLE: None}, crashes=(bad,)))["durable"].state == "failed"
    assert states(evidence(crashes=(bad,)))["durable"].state == "failed"
    undecided = replace(good, verdict="inconclusive")
    assert states(evidence({DURABLE: None}, crashes=(undecided,)))["durable"].state == "not-tested"
