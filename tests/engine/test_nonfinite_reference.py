"""A job that trains on NaN by itself: no run of it proves anything. One that only looks like it is silent."""

import sys
from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit.engine.runner import Runner
from chaoskit.errors import ExitCode, ReferenceFailed
from tests.claims import CLAIMS

TRAINER = Path(__file__).parents[1] / "trainers" / "not_numbers.py"


def job(kind):
    return Job.from_command([sys.executable, str(TRAINER), kind, "--out", "{out}"])


@pytest.fixture
def runner(shared_store):
    return Runner(shared_store, launch="warm")


@pytest.mark.launches
@pytest.mark.parametrize(("kind", "first"), [("nan", 1), ("nan-late", 7)])
def test_a_job_that_trains_on_nan_gets_no_reference(runner, kind, first):
    with pytest.raises(ReferenceFailed) as caught:
        runner.run(job(kind), faults.kill(rank=0).at_step(10))
    assert (caught.value.code, caught.value.exit_code) == ("reference-nonfinite", ExitCode.INCONCLUSIVE)
    assert f"its loss was nan at step {first}" in str(caught.value)
    assert len(list(Path(caught.value.run).parent.glob("control-*"))) == 1, "the other controls were run, too"
    assert not runner.runs


@pytest.mark.launches
@pytest.mark.parametrize("kind", ["mask", "guard"])
def test_a_mask_and_a_dropped_batch_are_no_nan(runner, kind):
    runner.run(job(kind), faults.kill(rank=0).at_step(10)).verify(*CLAIMS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scaler", "head", "plain"])
def test_other_jobs_that_train_on_numbers_all_the_same(runner, kind):
    runner.run(job(kind), faults.kill(rank=0).at_step(10)).verify(*CLAIMS)
