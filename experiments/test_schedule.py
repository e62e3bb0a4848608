"""A schedule: a worker is killed, or a node preempted, until the job ends (`--every 30m --during 6h`)."""

import pytest

from chaoskit import checks, faults

#: The seconds of notice that AWS gives, and how much of an interval they may take.
NOTICE, PART = 120, 1 / 3


@pytest.mark.schedule
def test_killed_again_and_again(chaos, job, claims, schedule):
    """One rank after the other is killed, drawn by the seed; every recovery is exact, the last as the first."""
    ranks = chaos.reference(job).world_size
    kills = faults.kill(rank=0).every(**schedule, among=ranks)
    run = chaos.run(job, *kills)
    run.verify(checks.recoveries_exact(), *claims)


@pytest.mark.schedule
@pytest.mark.notices
def test_preempted_again_and_again(chaos, job, claims, schedule, cloud, in_pods):
    """One node after the other is told that it will be taken away, and is; the job saves and resumes each time."""
    if in_pods and cloud == "kubernetes":
        notice = faults.evict_node(node=0)
    else:
        scale = min(1.0, schedule["interval"] * PART / NOTICE)
        notice = faults.preempt(cloud=cloud, node=0, notice=NOTICE, scale=scale)
    run = chaos.run(job, *notice.every(**schedule, among=job.nodes.most))
    run.verify(checks.recoveries_exact(), checks.emergency_checkpoint(), checks.stopped_cleanly(), *claims)
