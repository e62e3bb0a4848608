"""Replicas that should be equal and are not: nobody sees the difference, and the job trains on for weeks."""

import pytest

from chaoskit import checks, faults, targets


def test_replicas_agree(chaos, job):
    """Killed in the middle and resumed, the replicas hold the same numbers at every step. Needs no reference."""
    reference = chaos.reference(job)
    if why := reference.no_replicas:
        pytest.skip(why)
    run = chaos.run(job, faults.kill(rank=-1).at_step(reference.steps // 2))
    run.verify(checks.completed(), checks.replicas_agree())


@pytest.mark.numbers
def test_replica_divergence(chaos, job, sound, step):
    """One weight of one replica is doubled, silently: the job notices before it saves it, and recovers."""
    fault = faults.scale(2.0, rank=-1, into=targets.parameter(), elements=1)
    chaos.run(job, fault.at_step(step)).verify(*sound)
