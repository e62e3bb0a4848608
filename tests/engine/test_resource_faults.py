"""Real jobs that run out of memory, lose their processor, and wait for their disk."""

from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.analysis.recovery.throughput import stragglers
from chaoskit.engine.runner import Runner
from chaoskit.environments.cgroups.available import why_no_limits
from chaoskit.verdict import Outcome
from tests.claims import CLAIMS
from tests.users import must_have

TRAINERS = Path(__file__).parents[1] / "trainers"


@pytest.fixture
def runner(shared_store, request):
    must_have(request, why_no_limits())
    return Runner(shared_store, launch="warm")


def pair(*flags, **options):
    """A job of two ranks under torchrun."""
    return Job(str(TRAINERS / "simple.py"), ["--out", "{out}", *flags], **options)


def took_effect(run):
    """What `faults_took_effect` says of a run."""
    (verdict,) = run.judge(checks.faults_took_effect())
    return verdict


@pytest.mark.launches
def test_a_rank_without_memory_is_killed_by_the_kernel(runner):
    run = runner.run(pair(), faults.out_of_memory(rank=1).at_step(15))
    run.verify(checks.faults_took_effect(), *CLAIMS)
    evidence = run.history.faults[0].evidence
    assert evidence["killed_by_kernel"] == 1 and evidence["gone"] == [evidence["pid"]]
    assert len(run.history.launches) == 2 and "signal 9" in _log(run).lower()


@pytest.mark.slow
def test_a_node_without_memory_loses_a_process(runner):
    run = runner.run(pair(), faults.out_of_memory(node=0).at_step(15))
    run.verify(checks.faults_took_effect(), *CLAIMS)
    assert run.history.faults[0].evidence["killed_by_kernel"] >= 1


@pytest.mark.slow
def test_a_rank_with_memory_enough_proves_nothing(runner):
    # The job outlasts the limit, however fast the machine is.
    run = runner.run(
        pair("--epochs", "30"), faults.out_of_memory(rank=0, leave=1 << 40, seconds=0.2).at_step(15)
    )
    verdict = took_effect(run)
    assert verdict.outcome is Outcome.INCONCLUSIVE and "not observed" in verdict.sentence


@pytest.mark.slow
def test_a_rank_that_ends_before_its_memory_runs_out_proves_nothing(runner):
    run = runner.run(pair(), faults.out_of_memory(rank=0, leave=1 << 40, seconds=60).at_step(29))
    verdict = took_effect(run)
    assert verdict.outcome is Outcome.INCONCLUSIVE and "the kernel had not killed it" in verdict.sentence


@pytest.mark.launches
def test_a_straggler_is_ridden_out(runner):
    # Its steps are shorter than a period of the scheduler: it takes many of them to tell who is slow.
    run = runner.run(pair("--epochs", "8"), faults.throttle(rank=1, cpu=0.05, until_step=75).at_step(5))
    run.verify(checks.faults_took_effect(), *CLAIMS, checks.ridden_out())
    assert run.history.faults[0].evidence["throttled"] > 0
    assert [one.rank for one in stragglers(run.case.throughput) if one.fault == 0] == [1]
    # This trainer looks for no straggler.
    assert run.judge(checks.straggler_noticed())[-1].codes == ("straggler-unnoticed",)


@pytest.mark.slow
def test_a_job_with_a_detector_notices_its_straggler(runner):
    job = Job(str(TRAINERS / "watchful.py"), ["--out", "{out}"])
    run = runner.run(job, faults.throttle(rank=1, cpu=0.05, until_step=25).at_step(5))
    run.verify(*CLAIMS, checks.straggler_noticed(within=60))
    assert "straggler: rank" in run.verdicts[-1].evidence["line"]


@pytest.mark.slow
def test_with_processors_enough_nobody_waits(runner):
    run = runner.run(pair(), faults.throttle(node=0, cpu=64, until_step=25).at_step(5))
    assert took_effect(run).outcome is Outcome.INCONCLUSIVE


@pytest.mark.slow
def test_a_job_waits_for_its_disk(runner):
    """This trainer calls fsync on each part of a checkpoint."""
    job = Job(str(TRAINERS / "storing.py"), ["--out", "{out}", "sound"])
    run = runner.run(job, faults.slow_disk(node=0, bytes_per_second=8192, until_step=25).at_step(6))
    run.verify(checks.faults_took_effect(), *CLAIMS, checks.ridden_out())
    assert run.history.faults[0].evidence["seconds"] > 0


@pytest.mark.slow
def test_a_disk_that_is_fast_enough_keeps_nobody_waiting(runner):
    run = runner.run(pair(), faults.slow_disk(node=0, bytes_per_second=1 << 40, until_step=25).at_step(5))
    assert took_effect(run).outcome is Outcome.INCONCLUSIVE


def _log(run):
    return (run.dir / "logs" / "launch-0.log").read_text()
