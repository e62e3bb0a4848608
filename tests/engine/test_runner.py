"""Real jobs under real faults, and what the run says of them."""

import signal
import sys
import time
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner, analyze, replay, stored
from chaoskit.errors import CheckFailed, Inconclusive, MissingCapability, ReferenceFailed, UsageError
from chaoskit.verdict import Outcome
from tests.claims import CLAIMS

TRAINERS = Path(__file__).parents[1] / "trainers"


@pytest.fixture
def runner(shared_store):
    return Runner(shared_store, launch="warm")


def alone(*flags, **options):
    """A job of one plain process."""
    return Job.from_command([sys.executable, str(TRAINERS / "alone.py"), "--out", "{out}", *flags], **options)


def pair(*flags, **options):
    """A job of two ranks under torchrun."""
    return Job(str(TRAINERS / "simple.py"), ["--out", "{out}", *flags], **options)


def codes(run):
    """What was found, the most telling code first."""
    return [code for verdict in run.verdicts for code in verdict.codes]


@pytest.mark.launches
def test_a_killed_rank_of_two(runner):
    run = runner.run(pair(), faults.kill(rank=1).at_step(15))
    run.verify(*CLAIMS)
    assert (run.summary.resumed_from, run.summary.last_valid, run.summary.steps_lost) == (12, 12, 2)
    assert run.history.launches[0].code == 1 and len(run.history.launches) == 2
    # torchrun may end rank 0 before it reports the lost connection, so ask for a line that each rank surely wrote.
    logs = [path.read_text() for path in (run.dir / "logs" / "ranks").rglob("*.log")]
    said = [f"rank {rank} begins after step {step}" for step in (0, 12) for rank in (0, 1)]
    assert all(any(line in log for log in logs) for line in said), "what a rank said is not with the run"


def test_a_node_is_in_one_cloud_only(runner):
    notices = [faults.preempt(cloud=cloud, node=0).at_step(5) for cloud in ("aws", "gcp")]
    with pytest.raises(UsageError, match="faults of this run need aws and gcp"):
        runner.run(alone(), *notices)
    both = [faults.preempt(cloud="aws", node=0, imdsv1=v1).at_step(5) for v1 in (True, False)]
    with pytest.raises(UsageError, match="imdsv1 holds for a whole run"):
        runner.run(alone(), *both)
    with pytest.raises(MissingCapability, match=r"169\.254\.169\.254.*--env netns|CanOwnAddress"):
        runner.run(alone(), faults.preempt(cloud="azure", node=0).at_step(5))


@pytest.mark.launches
def test_a_job_that_knows_nothing_of_notices_is_preempted(runner):
    run = runner.run(pair(), faults.preempt(cloud="aws", node=0, scale=0.001).at_step(15))
    run.judge(*CLAIMS, checks.emergency_checkpoint(), checks.stopped_cleanly())
    told = {verdict.check: verdict for verdict in run.verdicts}
    assert told["faults_took_effect"].outcome is Outcome.PASS and run.history.launches[0].code == -9
    assert told["emergency_checkpoint"].codes == told["stopped_cleanly"].codes == ("notice-ignored",)
    assert "never asked the metadata service" in told["emergency_checkpoint"].sentence
    others = [v for name, v in told.items() if name not in ("emergency_checkpoint", "stopped_cleanly")]
    assert all(verdict.outcome is Outcome.PASS for verdict in others)


@pytest.mark.launches
def test_a_false_notice_that_nobody_receives_is_inconclusive(runner):
    run = runner.run(pair(), faults.preempt(cloud="aws", node=0, scale=0.002, then="nothing").at_step(15))
    with pytest.raises(Inconclusive, match="nobody received the notice"):
        run.verify(*CLAIMS)
    assert "fault-not-observed" in codes(run)


@pytest.mark.launches
def test_a_run_is_judged_again_and_repeated(runner):
    run = runner.run(alone(), faults.kill(rank=0).at_random(seed=3))
    run.verify(*CLAIMS)
    again = stored(run.dir, runner.store)
    assert [v.to_json() for v in analyze(again)] == [v.to_json() for v in run.verdicts]
    repeated = replay(again, runner)
    assert repeated.outcome is Outcome.PASS and repeated.dir != run.dir
    assert repeated.summary.steps_lost == run.summary.steps_lost
    names = {one.history.faults[0].name for one in (run, repeated)}
    assert len(names) == 1 and "at step" in names.pop()


@pytest.mark.slow
def test_a_restart_by_the_elastic_agent_needs_no_relaunch(runner):
    # One rank: with two, gloo may fail to connect after a restart by the agent, without any help of ours.
    job = Job(str(TRAINERS / "alone.py"), ["--out", "{out}"], nproc_per_node=1, max_restarts=2)
    run = runner.run(job, faults.kill(rank=0).at_step(8))
    run.verify(*CLAIMS)
    assert len(run.history.launches) == 1 and [i.restart for i in run.history.incarnations] == [0, 1]


@pytest.mark.slow
def test_an_exception_in_a_rank_and_a_second_fault_during_the_recovery(runner):
    first = faults.raise_(rank=1, type="OutOfMemoryError").at_step(15)
    run = runner.run(pair(), first, faults.kill(rank=0).at_start())
    run.verify(*CLAIMS)
    assert len(run.history.launches) == 3
    log = (run.dir / "logs" / "launch-0.log").read_text()
    assert "OutOfMemoryError: injected by chaoskit" in log


@pytest.mark.slow
def test_true_steps_are_meant_after_a_restart(runner):
    # The second life begins at 3: its own second step is the fifth, its eighth the eleventh.
    kill = faults.kill(rank=0)
    run = runner.run(alone(), kill.at_step(5), kill.at_step(11))
    run.verify(*CLAIMS)
    bases = [run.case.timeline.base(i.index) for i in run.history.incarnations]
    assert bases == [0, 3, 9] and len(run.history.incarnations[1].ranks[0].steps) == 7


@pytest.mark.slow
def test_a_plain_process_is_a_job_too(runner):
    run = runner.run(alone(), faults.kill(rank=0).at_step(8))
    run.verify(*CLAIMS)
    assert run.summary.resumed_from == 6 and run.history.world_size == 1


@pytest.mark.slow
def test_a_frozen_rank_goes_on(runner):
    run = runner.run(alone(), faults.pause(rank=0, seconds=0.5).at_step(8))
    run.verify(*CLAIMS)
    fault = run.history.faults[0]
    assert len(run.history.launches) == 1 and fault.healed - fault.observed >= 0.45


@pytest.mark.slow
def test_a_fault_by_the_clock_waits_for_its_rank_to_be_there(runner):
    run = runner.run(alone("--pace", "0.3"), faults.kill(rank=0).after(0.1))
    run.verify(checks.completed(), checks.matches_reference())  # before the first save: nothing to resume from
    fault, launch = run.history.faults[0], run.history.launches[0]
    assert fault.applied - launch.begun >= 0.1 and len(run.history.launches) == 2


@pytest.mark.launches
def test_a_signal_that_the_job_handles_is_observed_as_delivered(runner):
    job = alone("--misbehave", "ignore-sigterm", "--pace", "0.05")
    run = runner.run(job, faults.kill(rank=0, signal=signal.SIGTERM).at_step(8))
    run.verify(checks.completed(), checks.matches_reference())
    assert "delivered" in run.history.faults[0].evidence and len(run.history.launches) == 1
    assert "not now" in (run.dir / "logs" / "launch-0.log").read_text()


@pytest.mark.slow
def test_arguments_for_relaunches(runner):
    ask = alone("--must-ask", "--misbehave", "leave-a-child")
    kill = faults.kill(rank=0).at_step(8)
    forgotten = runner.run(ask, kill)
    with pytest.raises(CheckFailed):
        forgotten.verify(checks.resumed_from_last_valid())
    assert codes(forgotten) == ["restarted-from-scratch"]
    told = Runner(runner.store, launch="warm", resume_args=("--resume",)).run(ask, kill)
    told.verify(checks.resumed_from_last_valid(), checks.matches_reference())
    # A check must be seen to fail: only the told one comes so far as to leave something behind.
    with pytest.raises(CheckFailed):
        told.verify(checks.no_orphans())
    assert codes(told) == ["orphans"]


@pytest.mark.launches
def test_a_relaunch_is_told_to_resume_once_there_is_a_checkpoint_and_which_one(runner):
    """Killed before its first save, the job would die for want of the file."""
    told = Runner(runner.store, launch="warm", resume_args=("--from", "{newest:lat*.pt}"))
    kill = faults.kill(rank=0)
    run = told.run(alone("--must-ask"), kill.at_step(2), kill.at_step(8))
    run.verify(*CLAIMS)
    newest = ("--from", str(run.dir / "out" / "latest.pt"))
    assert [launch.added for launch in run.history.launches] == [(), (), newest]


@pytest.mark.launches
def test_a_failure_that_comes_of_our_own_arguments_says_so(runner):
    told = Runner(runner.store, launch="warm", resume_args=("--from", "{out}/no-such-file"))
    run = told.run(alone(relaunches=1), faults.kill(rank=0).at_step(8))
    with pytest.raises(CheckFailed):
        run.verify(checks.completed())
    said = run.verdicts[-1]
    assert said.codes == ("crash-loop",)
    assert f"chaoskit had appended '--from {run.dir / 'out'}/no-such-file'" in said.sentence


@pytest.mark.slow
def test_a_trigger_that_is_never_reached_proves_nothing(runner):
    run = runner.run(alone(), faults.kill(rank=0).at_step(500))
    with pytest.raises(Inconclusive):
        run.verify(*CLAIMS)
    assert set(codes(run)) == {"fault-not-observed"} and run.outcome is Outcome.INCONCLUSIVE


@pytest.mark.slow
def test_a_run_without_faults_equals_the_reference(runner):
    run = runner.run(alone(), faults.noop().at_step(3))
    run.verify(checks.controls_agree(), *CLAIMS)
    assert runner.run(alone()).judge(*CLAIMS)[0].outcome is Outcome.PASS


@pytest.mark.launches
def test_a_job_that_never_saves_begins_again_from_scratch(runner):
    run = runner.run(alone("--misbehave", "no-save"), faults.kill(rank=0).at_step(8))
    with pytest.raises(CheckFailed):
        run.verify(*CLAIMS)
    assert codes(run)[0] == "restarted-from-scratch"


@pytest.mark.launches
def test_a_job_that_hangs_is_ended_at_its_deadline_with_its_stacks(runner):
    job = alone("--misbehave", "hang", timeout=12.0)
    begun = time.monotonic()
    run = runner.run(job, faults.kill(rank=0).at_step(8))
    with pytest.raises(CheckFailed):
        run.verify(checks.completed())
    assert codes(run) == ["hang"] and "alone.py" in run.history.stacks[0]
    assert time.monotonic() - begun < 60 and run.history.end == "deadline"


@pytest.mark.launches
def test_a_job_that_ends_before_its_last_step(runner):
    run = runner.run(alone("--misbehave", "exit-early"), faults.kill(rank=0).at_step(8))
    run.judge(checks.completed())
    assert codes(run) == ["exited-early"]


@pytest.mark.slow
def test_a_budget_of_relaunches(runner):
    kill = faults.kill(rank=0).at_step(8)
    run = Runner(runner.store, launch="warm", relaunches=0).run(alone(), kill)
    run.judge(checks.completed())
    assert codes(run) == ["crash-loop"] and len(run.history.launches) == 1


@pytest.mark.slow
def test_a_script_that_crashes_at_once_shows_its_own_traceback(runner):
    with pytest.raises(ReferenceFailed, match="this trainer crashes at once") as caught:
        runner.run(alone("--misbehave", "crash"), faults.kill(rank=0).at_step(8))
    assert caught.value.code == "reference-failed" and Path(caught.value.run).is_dir()


@pytest.mark.launches
def test_a_script_that_never_steps_an_optimizer(runner, tmp_path):
    (tmp_path / "idle.py").write_text("import torch")
    job = Job.from_command([sys.executable, str(tmp_path / "idle.py"), "{out}"])
    with pytest.raises(ReferenceFailed) as caught:
        runner.reference(job)
    assert caught.value.code == "probe-blind"


@pytest.mark.launches
def test_a_job_that_is_not_deterministic_says_where_its_controls_part(runner):
    run = runner.run(alone("--misbehave", "no-seed"), faults.kill(rank=0).at_step(8))
    with pytest.raises(Inconclusive):
        run.verify(checks.controls_agree(), checks.matches_reference())
    assert codes(run) == ["not-deterministic", "not-deterministic"]
    assert "step 1" in run.verdicts[1].sentence and "model" in run.verdicts[1].sentence
    # Its own past is a measure all the same.
    run.judge(checks.resumed_from_last_valid())
    assert run.summary.resumed_from == 6


@pytest.mark.slow
def test_a_reference_is_made_once_and_anew_when_a_source_changes(runner, tmp_path):
    script = tmp_path / "trainer.py"
    script.write_text((TRAINERS / "alone.py").read_text())
    job = Job.from_command([sys.executable, str(script), "--out", "{out}"])
    phases = []

    class Phases:
        def phase(self, text):
            phases.append(text)

    def made():
        phases.clear()
        Runner(runner.store, launch="warm", progress=Phases()).reference(job)
        return any(phase.startswith("reference 1 of 2") for phase in phases)

    assert made() and not made()
    script.write_text(script.read_text().replace("lr=0.01", "lr=0.02"))
    assert made() and not made()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "names"),
    [
        (Job("missing.py", ["{out}"]), "missing.py"),
        (Job.from_command(["no-such-program", "{out}"]), "no-such-program"),
        (Job(str(TRAINERS / "simple.py"), ["--out", "somewhere"]), r"\{out\}"),
    ],
)
def test_what_cannot_be_launched_is_named_before_anything_runs(runner, job, names):
    with pytest.raises(UsageError, match=names):
        runner.run(job, faults.kill(rank=0).at_step(1))


@pytest.mark.slow
def test_a_rank_that_the_job_does_not_have(runner):
    with pytest.raises(UsageError, match="no rank 7"):
        runner.run(alone(), faults.kill(rank=7).at_step(2))
    with pytest.raises(UsageError, match="no trigger"):
        runner.run(alone(), faults.kill(rank=0))


@pytest.mark.slow
def test_two_harnesses_share_one_store(shared_store):
    first, second = Runner(Store(shared_store.root)), Runner(Store(shared_store.root))
    one = first.run(alone(), faults.kill(rank=0).at_step(5))
    two = second.run(alone(), faults.kill(rank=0).at_step(5))
    assert one.dir != two.dir and one.judge(*CLAIMS) and two.judge(*CLAIMS)
