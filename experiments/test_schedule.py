"""A schedule: a worker is killed again and again until the job ends (`--every 30m --during 6h`)."""

import pytest

from chaoskit import checks, faults


@pytest.mark.schedule
def test_killed_again_and_again(chaos, job, claims, schedule):
    """One rank after the other is killed, drawn by the seed; every recovery is exact, the last as the first."""
    ranks = chaos.reference(job).world_size
    kills = faults.kill(rank=0).every(**schedule, among=ranks)
    run = chaos.run(job, *kills)
    run.verify(checks.recoveries_exact(), *claims)
