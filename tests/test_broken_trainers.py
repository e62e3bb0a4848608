"""Trainers that forget one thing each: every one fails with its own code, and the table shows why."""

from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit.errors import CheckFailed
from chaoskit.runner import Runner
from tests.claims import CLAIMS

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def broken(shared_store):
    """The run of a broken trainer, after one rank was killed in its second epoch or all of them inside a save."""

    def run(name, *, inside_save=False):
        runner = Runner(shared_store, relaunches=2)
        script = REPOSITORY / "tests" / "trainers" / f"{name}.py"
        env = {"PYTHONPATH": str(REPOSITORY)}
        job = Job(str(script), ["--out", "{out}"], cwd=str(REPOSITORY), env=env)
        step = runner.reference(job).middle_of_epoch(2)
        fault = faults.kill(rank="all").during_save(2) if inside_save else faults.kill(rank=1).at_step(step)
        made = runner.run(job, fault)
        with pytest.raises(CheckFailed):
            made.verify(*CLAIMS)
        return made

    return run


def codes(run, check):
    """What one check found."""
    return [code for verdict in run.verdicts if verdict.check == check for code in verdict.codes]


def rows(run):
    """The cells of the table for the second incarnation, by rank."""
    return {row["rank"]: row["cells"] for row in run.case.table() if row["incarnation"] == 1}


def test_one_that_forgets_its_rng(broken):
    run = broken("forgets_rng")
    assert codes(run, "state_restored") == codes(run, "matches_reference") == ["rng-not-restored"]
    assert codes(run, "resumed_from_last_valid") == []
    for cells in rows(run).values():
        others = {cells[name] for name in ("model", "optimizer", "lr", "batch", "ema")}
        assert others == {"30"} and cells["rng"] != "30"


def test_one_that_forgets_its_optimizer(broken):
    run = broken("forgets_optimizer")
    assert codes(run, "state_restored") == ["optimizer-not-restored"]
    for cells in rows(run).values():
        assert cells["optimizer"] == "0" and cells["model"] == cells["rng"] == cells["batch"] == "30"


def test_one_that_restarts_its_data(broken):
    run = broken("restarts_data")
    assert codes(run, "state_restored")[0] == "data-replayed"
    for cells in rows(run).values():
        assert cells["model"] == cells["optimizer"] == "30" and cells["batch"] != "30"


def test_one_that_overwrites_its_only_checkpoint(broken):
    run = broken("overwrites_in_place", inside_save=True)
    assert "torn-checkpoint" in codes(run, "completed") + codes(run, "resumed_from_last_valid")


def test_one_that_never_resumes(broken):
    run = broken("never_resumes")
    assert codes(run, "resumed_from_last_valid") == ["restarted-from-scratch"]
    assert all(cells["model"] == cells["optimizer"] == "0" for cells in rows(run).values())
