"""A checkpoint that a job publishes under several names is one checkpoint: damage shows under each of them."""

import sys
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.engine.runner import Runner
from chaoskit.verdict import Outcome

TRAINER = Path(__file__).parents[1] / "trainers" / "linked.py"


def struck(store, *flags):
    """Killed after the save of step 6, whose largest file is empty at the relaunch."""
    job = Job.from_command([sys.executable, str(TRAINER), "--out", "{out}", *flags])
    run = Runner(store, launch="warm").run(job, faults.kill(rank=0).at_step(8), faults.empty().before_relaunch())
    (fault,) = (one for one in run.history.faults if one.name.startswith("empty"))
    assert {entry["file"] for entry in fault.evidence["files"]} == {"last.pt", "kept-06.pt"}
    return run


@pytest.mark.launches
@pytest.mark.parametrize("publish", ["link", pytest.param("copy", marks=pytest.mark.slow)])
def test_a_job_that_reads_one_name_alone_does_not_come_back(shared_store, publish):
    """It must not pass because the damage lay under a name that it does not read."""
    run = struck(shared_store, "--publish", publish)
    assert run.judge(checks.completed())[-1].outcome is Outcome.FAIL
    assert not any("corrupt-accepted" in verdict.codes for verdict in run.verdicts)


@pytest.mark.launches
@pytest.mark.parametrize("publish", ["link", pytest.param("copy", marks=pytest.mark.slow)])
def test_a_job_that_falls_back_to_an_older_one_passes(shared_store, publish):
    run = struck(shared_store, "--publish", publish, "--fall-back")
    right = run.judge(
        checks.resumed_from_last_valid(), checks.falls_back_to_last_valid(), checks.matches_reference()
    )
    assert all(verdict.outcome is Outcome.PASS for verdict in right), [verdict.sentence for verdict in right]
    assert (run.summary.resumed_from, run.summary.last_valid) == (3, 3)
