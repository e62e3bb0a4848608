"""`--record-every 5` with real jobs: what is recorded, and that as much is found in it as with every step."""

import pytest

from chaoskit import Job, checks, faults
from chaoskit.analysis.record.history import lifetimes
from chaoskit.engine.planned_run import PlannedRun
from chaoskit.engine.runner import Runner
from chaoskit.protocol.putting_back import PutBack, Resumed
from chaoskit.verdict import Outcome

#: Small and quick, with steps between two saves that are not recorded.
FLAGS = ("--layers", "1", "--width", "16", "--epochs", "3", "--save-every", "15")
STATE = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.matches_reference(), checks.replicas_agree(), checks.checkpoints_faithful(),
)  # fmt: skip
PUT_BACK = PutBack("/kept", (Resumed(1, 0, 30, {0: ("model",)}),))


def trainer(module="tinymodels.train", *flags, **options):
    return Job(module, ["--out", "{out}", *FLAGS, *flags], module=True, **options)


@pytest.fixture
def struck(shared_store):
    """A run of a trainer whose last rank is killed in its second epoch, judged."""

    def run(module, *flags):
        runner = Runner(shared_store, launch="warm", record_every=5)
        found = runner.run(trainer(module, *flags), faults.kill(rank=1).at_step(36))
        found.judge(*STATE)
        return found

    return run


def thin(history):
    """By incarnation and rank, the steps of which the state was left out, and how many there are."""
    return {(inc.index, own.rank): (own.steps.thin.count(1), len(own.steps)) for inc, own in lifetimes(history)}


@pytest.mark.launches
def test_the_good_trainer_passes_and_the_first_control_has_every_step(struck):
    run = struck("tinymodels.train")
    assert run.outcome is Outcome.PASS, run.verdicts
    first, second = map(thin, run.reference.controls)
    assert first == {(0, 0): (0, 60), (0, 1): (0, 60)}
    assert all(left_out == 20 and steps == 60 for left_out, steps in second.values())
    assert all(0 < left_out < steps for left_out, steps in thin(run.history).values())
    said = {verdict.check: verdict.sentence for verdict in run.verdicts}
    assert "losses, learning rates and batches at all (--record-every)" in said["matches_reference"]
    assert "(--record-every)" in said["replicas_agree"]


@pytest.mark.launches
@pytest.mark.parametrize(
    ("module", "flags", "code"),
    [
        ("rng_missing", (), "rng-not-restored"),
        pytest.param("data_restart_zero", (), "data-replayed", marks=pytest.mark.slow),
        pytest.param("optim_not_saved", ("--parallel", "fsdp"), "optimizer-not-restored", marks=pytest.mark.slow),
    ],
)
def test_a_broken_trainer_is_caught_with_the_code_that_it_has_with_every_step(struck, module, flags, code):
    run = struck(f"tinymodels.gallery.{module}", *flags)
    found = {verdict.check: verdict.codes for verdict in run.verdicts if verdict.outcome is Outcome.FAIL}
    assert code in found["state_restored"] and code in found["matches_reference"], run.verdicts
    assert not {"loss-diverged", "model-not-restored"} & {each for codes in found.values() for each in codes}


@pytest.mark.parametrize(
    ("job", "schedule", "put_back", "every"),
    [
        ({}, faults.kill(rank=1).at_step(3), None, False),
        ({}, faults.nan(rank=1).at_step(3), None, True),
        ({"nnodes": "1:2"}, faults.kill(rank=1).at_step(3), None, True),
        ({"relaunch_command": ["other", "{out}"]}, faults.kill(rank=1).at_step(3), None, True),
        ({}, faults.kill(rank=1).at_step(3), PUT_BACK, True),
    ],
    ids=["kill", "corrupted", "elastic", "other command", "put back"],
)
def test_what_needs_every_step_records_it(job, schedule, put_back, every):
    planned = PlannedRun(
        store=None, environment="local", experiment="", progress=None, job=trainer(record_every=5, **job),
        reference=None, faults=(schedule,), asked=("",), put_back=put_back,
    )  # fmt: skip
    assert planned.needs_every_step is every


def test_another_number_of_steps_is_another_reference():
    one, five = trainer(), trainer(record_every=5)
    assert one.digest() != five.digest() == trainer(record_every=5).digest()
    # What was stored before the option was there is a record of every step.
    assert "record_every" not in one.to_json() and Job.from_json(one.to_json()).record_every == 1
    assert Job.from_json(five.to_json()).record_every == 5
