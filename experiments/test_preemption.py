"""Preemption: the job is asked to end, and may use the time that is left."""

import signal

from chaoskit import faults


def test_sigterm_one_rank(chaos, job, claims):
    """Only one rank receives SIGTERM, in the middle of the second epoch; the others must not wait for it."""
    step = chaos.reference(job).middle_of_epoch(2)
    run = chaos.run(job, faults.kill(rank=0, signal=signal.SIGTERM).at_step(step))
    run.verify(*claims)
