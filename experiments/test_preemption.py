"""Preemption: the job is asked to end, or told that its node will be taken away, and may use the time that is left."""

import signal

import pytest

from chaoskit import checks, faults

#: Notices in these ways ask the processes to end: none of them is false.
ENDING = ("kubernetes", "signal")
#: The seconds that AWS gives, and of which the grace is a part that suits the job.
NOTICE = 120


def test_sigterm_one_rank(chaos, job, claims):
    """Only one rank receives SIGTERM, in the middle of the second epoch; the others must not wait for it."""
    step = chaos.reference(job).middle_of_epoch(2)
    run = chaos.run(job, faults.kill(rank=0, signal=signal.SIGTERM).at_step(step))
    run.verify(*claims)


@pytest.mark.cluster("slurm")
def test_time_limit(chaos, job, claims):
    """The job reaches its time limit. If it has asked Slurm for a signal before that, it saves in time."""
    run = chaos.run(job, faults.time_limit().after_save(1))
    (limit,) = run.history.faults
    if len(run.history.launches) == 1 and run.case.timeline.highest() == run.reference.steps:
        pytest.skip("the job ended before its limit, which may come 90 s after the first save: train longer")
    asked = (checks.emergency_checkpoint(), checks.stopped_cleanly()) if limit.evidence.get("signal") else ()
    run.verify(*claims, *asked)


@pytest.mark.notices
def test_preempted(chaos, job, claims, cloud):
    """The last node is told that it will be taken away, and it is; by then all ranks have saved the same step."""
    run = notice(chaos, job, cloud, node=-1)
    run.verify(*claims, checks.emergency_checkpoint(), checks.stopped_cleanly())


@pytest.mark.notices
@pytest.mark.nodes
def test_all_preempted(chaos, job, claims, cloud):
    """All nodes are told at the same time that they will be taken away, and they are."""
    run = notice(chaos, job, cloud, node="all")
    run.verify(*claims, checks.emergency_checkpoint(), checks.stopped_cleanly())


@pytest.mark.notices
def test_told_again(chaos, job, claims, cloud):
    """The notice comes three times before the node is taken away."""
    run = notice(chaos, job, cloud, node=-1, times=3)
    run.verify(*claims, checks.emergency_checkpoint(), checks.stopped_cleanly())


@pytest.mark.notices
def test_false_notice(chaos, job, claims, cloud):
    """The notice is false: the node stays, and the job goes on."""
    if cloud in ENDING:
        pytest.skip("SIGTERM asks the job to end, whatever follows")
    run = notice(chaos, job, cloud, node=-1, then="nothing")
    run.verify(*claims, checks.false_notice_ridden_out())


@pytest.mark.notices
def test_withdrawn_notice(chaos, job, claims, cloud):
    """The notice is withdrawn half-way to its time, and the job goes on."""
    if cloud in (*ENDING, "slurm"):
        pytest.skip("a signal cannot be withdrawn")
    run = notice(chaos, job, cloud, node=-1, then="nothing", withdrawn=NOTICE / 2)
    run.verify(*claims, checks.false_notice_ridden_out())


def notice(chaos, job, cloud, **given):
    """A run with a notice in the middle of the second epoch. The grace is at most a third of what is left."""
    reference = chaos.reference(job)
    step = reference.middle_of_epoch(2)
    left = reference.seconds * (1 - step / reference.steps)
    scale = min(1.0, max(2.0, left / 3) / NOTICE)
    return chaos.run(job, faults.preempt(cloud=cloud, notice=NOTICE, scale=scale, **given).at_step(step))
