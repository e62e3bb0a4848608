"""Real jobs that lose something: what a further run with it put back shows."""

import json
import sys
from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit.cli import main
from chaoskit.engine.runner import Runner
from chaoskit.errors import ExitCode
from chaoskit.protocol.events import rank_events
from chaoskit.studies.putting_back import lost_state, prove, rerun
from chaoskit.verdict import Outcome
from tests.claims import CLAIMS

TRAINER = Path(__file__).parents[2] / "trainers" / "forgetful.py"


@pytest.fixture
def runner(shared_store):
    return Runner(shared_store, launch="warm", experiment="a test")


def failed(runner, *flags):
    """A judged run of the trainer, stopped after its second save."""
    job = Job.from_command([sys.executable, str(TRAINER), "--out", "{out}", *flags])
    run = runner.run(job, faults.kill(rank=0).at_step(8))
    run.judge(*CLAIMS)
    return run


def codes(run):
    return {code for verdict in run.verdicts for code in verdict.codes}


@pytest.mark.launches
@pytest.mark.parametrize(
    ("lose", "expected", "components"),
    [
        ("torch", {"rng-not-restored"}, {"rng.torch"}),
        ("model", {"model-not-restored"}, {"model"}),
        (
            "lr,optimizer,decay,buffers,scaler,average",
            {"lr-schedule-off", "optimizer-not-restored", "buffers-not-restored", "scaler-not-restored"},
            {"lr", "optimizer", "buffers", "scaler", "ema"},
        ),
    ],
)
def test_what_was_lost_is_put_back_and_the_run_is_exact(runner, lose, expected, components):
    run = failed(runner, "--lose", lose)
    assert expected <= codes(run)
    proof = prove(runner, run)
    assert proof is not None and proof.outcome == "proven", proof
    assert components <= set(proof.put_back) and proof.experiment == "a test"
    assert Path(proof.run) != run.dir
    # The rank itself says what it had before and after.
    event = next(iter(rank_events(Path(proof.run), "state.put")))
    for name in components:
        before, after = event["components"][name]
        assert before != after and event["position"] == 6


@pytest.mark.launches
def test_the_command_holds_in_every_step_a_rate_that_a_script_computes_from_its_own_counter(
    runner, tmp_path, capsys
):
    run = failed(runner, "--lose", "lr", "--own-schedule")
    answer = tmp_path / "proof.json"
    typed = ["prove", str(run.dir), "--launch", "warm", "--json", str(answer)]
    assert main.main(typed) == ExitCode.PASS
    proof = json.loads(answer.read_text())
    assert (proof["outcome"], proof["put_back"]) == ("proven", ["lr"]), proof
    assert "a test: proven: with the LR put back" in capsys.readouterr().out
    # The further run is green, and shows nothing of the job as it is.
    assert main.main(["analyze", proof["run"]]) == ExitCode.PASS
    assert "chaoskit put back lr" in capsys.readouterr().err
    assert main.main(["prove", proof["run"]]) == ExitCode.USAGE


def test_a_code_that_does_not_exist_is_refused_before_anything_runs(tmp_path, capsys):
    assert main.main(["prove", "x", "--dir", str(tmp_path), "--code", "rng-not-restord"]) == ExitCode.USAGE
    assert "did you mean 'rng-not-restored'?" in capsys.readouterr().err


@pytest.mark.launches
def test_augmentation_that_draws_from_a_lost_stream_is_no_replayed_data(runner):
    run = failed(runner, "--lose", "python", "--augment")
    assert codes(run)
    proof = prove(runner, run)
    assert proof is not None and proof.outcome == "proven", proof
    assert proof.put_back == ("rng.python",)


@pytest.mark.launches
@pytest.mark.parametrize("lose", ["place", "epoch"])
def test_the_position_in_the_data_is_put_back_where_a_loader_reads_the_rows(runner, lose):
    run = failed(runner, "--lose", lose)
    assert "data-replayed" in codes(run)
    proof = prove(runner, run)
    assert proof is not None and (proof.outcome, proof.put_back) == ("proven", ("batch",)), proof


@pytest.mark.launches
def test_with_one_of_two_put_back_the_other_is_named(runner):
    run = failed(runner, "--lose", "torch,scaler")
    assert {"rng-not-restored", "scaler-not-restored"} <= codes(run)
    alone = prove(runner, run, codes=["rng-not-restored"])
    assert alone is not None and (alone.outcome, alone.put_back) == ("more-lost", ("rng.torch",))
    assert "scaler-not-restored" in alone.codes and "rng-not-restored" not in alone.codes
    both = prove(runner, run)
    assert both is not None and both.outcome == "proven" and set(both.put_back) == {"rng.torch", "scaler"}


@pytest.mark.launches
def test_what_no_component_holds_is_lost_all_the_same(runner):
    run = failed(runner, "--lose", "torch,boost")
    proof = prove(runner, run)
    assert proof is not None and proof.outcome == "more-lost" and "loss-diverged" in proof.codes, proof


@pytest.mark.launches
def test_a_good_trainer_has_nothing_to_prove_and_a_component_wrongly_blamed_proves_nothing(runner):
    run = failed(runner)
    assert run.outcome is Outcome.PASS and prove(runner, run) is None
    blamed = lost_state(failed(runner, "--lose", "scaler").case)
    found = rerun(runner, run, blamed)
    # The run is exact, and yet it proves nothing: nothing was lost in it.
    assert found.run.outcome is Outcome.PASS and not found.exact and not found.changed and found.problem
