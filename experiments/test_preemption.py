"""Preemption: the job is told to go, and may use the time that it has left."""

import signal

from chaoskit import faults


def test_sigterm_one_rank(chaos, job, claims):
    """One rank alone gets SIGTERM in the middle of the second epoch; it must not leave the others waiting for it."""
    step = chaos.reference(job).middle_of_epoch(2)
    run = chaos.run(job, faults.kill(rank=0, signal=signal.SIGTERM).at_step(step))
    run.verify(*claims)
