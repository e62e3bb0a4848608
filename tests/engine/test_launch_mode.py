"""Warm is what cold is, to the bit, or the job is launched cold and the reason is given."""

import sys
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.engine import launch_mode
from chaoskit.engine.runner import Runner
from chaoskit.environments.launch.mode import COLD, Mode
from chaoskit.errors import CannotWarm
from tests.claims import CLAIMS

TRAINERS = Path(__file__).parents[1] / "trainers"
REPOSITORY = Path(__file__).resolve().parents[2]
#: As test_battery.py types it: the two share references.
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


def notices(then):
    """A job that can tell how it was launched."""
    return Job.from_command([sys.executable, str(TRAINERS / "notices.py"), "--out", "{out}", "--then", then])


def how(run):
    """How each launch of a run was made."""
    return [launch.how for launch in run.history.launches]


def test_a_mode_survives_json():
    mode = Mode(warm=True, modules=("a", "b"), captures=(("m", "f", 1),), threads="2", demanded=True)
    assert Mode.from_json(mode.to_json()) == mode and Mode.from_json({}) == COLD
    assert [str(each) for each in (mode, COLD, Mode(reason="no"))] == ["warm", "cold", "cold: no"]


def test_what_is_known_before_anything_has_run(tmp_path):
    (tmp_path / "train.py").write_text("")
    job = Job("train.py", ["{out}"], cwd=str(tmp_path))
    assert launch_mode.planned(job, environment="local", wish="auto").warm
    assert launch_mode.planned(job, environment="local", wish="cold") == COLD
    shell = Job.from_command(["sh", "train.sh", "{out}"], cwd=str(tmp_path))
    assert launch_mode.planned(shell, environment="local", wish="auto") == Mode(reason="'sh' is no Python program")
    assert "launching cold: 'sh' is no" in launch_mode.describe(shell, environment="local", wish="auto")
    with pytest.raises(CannotWarm, match="cannot launch warm: 'sh' is no Python program; --launch auto or cold"):
        launch_mode.planned(shell, environment="local", wish="warm")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="ddp", marks=pytest.mark.exhaustive),  # the last one is DDP too
        pytest.param(("--parallel", "fsdp"), id="fsdp", marks=pytest.mark.slow),
        pytest.param(
            ("--amp", "--save-async", "--workers", "2", "--accumulate", "3"),
            id="amp, asynchronous saves, workers",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_way_to_train_gives_the_same_bits_warm_and_cold(shared_store, flags):
    # The first control is cold, the second warm: a reference that is deterministic and warm has compared them.
    job = Job.from_command([*TORCHRUN, "-m", "tinymodels.train", "--out", "{out}", *flags], cwd=str(REPOSITORY))
    reference = Runner(shared_store).reference(job)
    cold, warm = reference.controls
    assert [control.launches[0].how for control in (cold, warm)] == ["cold", "warm"]
    assert reference.deterministic and reference.mode["warm"], reference.mode["reason"]
    said = [Path(reference.path, f"control-{number}", "logs", "launch-0.log").read_text() for number in (0, 1)]
    assert [len(text.splitlines()) for text in said] == [len(said[0].splitlines())] * 2, said
    for rank in cold.ranks:
        one, other = (control.incarnations[0].ranks[rank].steps for control in (cold, warm))
        assert one.losses == other.losses and one.columns == other.columns and len(one) == reference.steps


@pytest.mark.slow
@pytest.mark.launches
def test_the_same_verdicts_warm_and_cold(shared_store):
    job = Job.from_command([sys.executable, str(TRAINERS / "alone.py"), "--out", "{out}", "--steps", "13"])
    told = []
    for wish in ("cold", "warm"):
        run = Runner(shared_store, launch=wish).run(job, faults.kill(rank=0).at_step(8))
        assert how(run) == [wish, wish]
        run.verify(*CLAIMS)
        summary = run.summary
        told.append([(v.check, v.outcome, v.codes, v.sentence) for v in run.verdicts])
        told.append([summary.resumed_from, summary.last_valid, summary.steps_lost])
    assert told[:2] == told[2:]


@pytest.mark.slow
def test_a_job_that_trains_otherwise_when_warm_is_launched_cold(shared_store):
    runner = Runner(shared_store)
    run = runner.run(notices("faster"))
    run.verify(checks.completed(), checks.matches_reference())
    reason = "its first warm launch differs from the cold ones from step 1, rank 0, in lr on"
    assert run.reference.mode["reason"] == reason and run.reference.deterministic
    assert [control.launches[0].how for control in run.reference.controls] == ["cold", "cold"]
    assert how(run) == [f"cold: {reason}"]
    with pytest.raises(CannotWarm, match=f"cannot launch warm: {reason}"):
        Runner(shared_store, launch="warm").reference(notices("faster"))


@pytest.mark.slow
@pytest.mark.launches
def test_a_job_that_crashes_when_warm_is_launched_cold(shared_store):
    reference = Runner(shared_store).reference(notices("crash"))
    reason = "its first warm launch failed: the uninterrupted run ended with exit code 1"
    assert reference.mode["reason"] == reason
    assert [control.launches[0].how for control in reference.controls] == ["cold", f"cold: {reason}"]
