"""A job that is not deterministic: judged by the spread of five controls, and by what the run itself had been."""

import sys
from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit.engine.runner import Runner
from chaoskit.verdict import Outcome
from tests.claims import CLAIMS

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]


def run(store, *args):
    """The verdicts by check, after a kill in the second epoch."""
    command = [sys.executable, "-m", "tests.trainers.unseeded", "--out", "{out}", "--samples", "320", *args]
    job = Job.from_command(command, cwd=str(REPOSITORY), env={"PYTHONPATH": str(REPOSITORY)})
    runner = Runner(store, launch="warm")
    reference = runner.reference(job)
    assert len(reference.controls) == 5
    made = runner.run(job, faults.kill(rank=0).at_step(reference.middle_of_epoch(2)))
    return {verdict.check: verdict for verdict in made.judge(*CLAIMS)}


def test_unseeded_dropout_passes_and_a_forgotten_optimizer_does_not(shared_store):
    found = run(shared_store)
    assert {verdict.outcome for verdict in found.values()} == {Outcome.PASS}
    assert "the spread of 5 controls" in found["matches_reference"].sentence
    assert "every component but rng.torch, which differs in every run" in found["state_restored"].sentence

    found = run(shared_store, "--forget-optimizer")
    assert found["state_restored"].codes == found["matches_reference"].codes == ("optimizer-not-restored",)
    assert found["same_data"].outcome is Outcome.PASS
