"""Rank 0 saves right after its own step, and rank 1 is killed around it: nothing is lost, and nobody is accused."""

from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.engine.runner import Runner
from chaoskit.verdict import Outcome
from tests.claims import CLAIMS

TRAINER = Path(__file__).parents[1] / "trainers" / "skewed.py"
EVERY = (*CLAIMS, checks.samples_exactly_once(), checks.no_checkpoint_lost())


@pytest.fixture(scope="module")
def skews(tmp_path_factory):
    return tmp_path_factory.mktemp("skews")


@pytest.fixture
def killed(shared_store, skews):
    """Kill rank 1 after `late` has made ranks late; one reference serves them all."""

    def kill(late, moment, *flags):
        runner = Runner(shared_store, launch="warm", relaunches=2)
        job = Job(str(TRAINER), ["--out", "{out}", "--skews", str(skews), *flags])
        runner.reference(job)
        (skews / late).touch()
        try:
            return runner.run(job, *moment)
        finally:
            (skews / late).unlink()

    return kill


@pytest.mark.launches
def test_a_rank_that_is_late_for_its_step_when_the_other_has_saved_it(killed):
    run = killed("1 -step 3 8", [faults.kill(rank=1).after_save(2)])
    run.verify(*EVERY)
    assert [(gap.rank, gap.first, gap.taken) for gap in run.case.timeline.unrecorded] == [(1, 8, True)]


@pytest.mark.launches
def test_a_rank_that_is_killed_at_the_last_step(killed):
    run = killed("1 +save 0", [faults.kill(rank=1).at_step(12)])
    run.verify(*EVERY)
    assert len(run.history.launches) == 2 and not run.history.incarnations[1].first_step


@pytest.mark.launches
def test_a_rank_that_goes_on_without_the_other_loses_its_data(killed):
    """Rank 1 dies in its backward pass of step 5; rank 0 applies its own gradients, and saves."""
    moment = [faults.noop().at_step(4), faults.kill(rank=1).after(1)]
    run = killed("1 -backward 4 5", moment, "--alone", "--every", "20")
    verdicts = {verdict.check: verdict for verdict in run.judge(*EVERY)}
    assert run.outcome is Outcome.FAIL
    assert verdicts["same_data"].outcome is not Outcome.PASS
    assert not any(gap.taken for gap in run.case.timeline.unrecorded)
