"""Losses that jump up and come down again: after one bad batch, after one step that was far too long."""

import pytest

from chaoskit import checks, faults


@pytest.mark.numbers(flags=["--spike", "1.2", "--rollback-after", "1"])
@pytest.mark.parametrize("cause", ["bad_batch", "lr_spike"])
def test_loss_spike(chaos, job, step, cause):
    """The job survives it, saves no NaN or infinity, and its losses return to those of the uninterrupted run."""
    fault = faults.bad_batch(rank=-1) if cause == "bad_batch" else faults.lr_spike(100.0)
    run = chaos.run(job, fault.at_step(step))
    run.verify(
        checks.completed(),
        checks.stays_finite(),
        checks.returned_to_reference(within=20, band=0.1),
        checks.no_orphans(),
    )
