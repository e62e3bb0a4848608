"""Numbers that are none: what a bad batch or a bad device gives must not find its way into the checkpoints."""

import pytest

from chaoskit import faults


def test_not_a_number(chaos, job, claims):
    """One rank's forward pass gives NaN once; later, with more saves made, all ranks are killed."""
    reference = chaos.reference(job)
    saves = [position for position in reference.saves if position + 2 <= reference.steps]
    if len(saves) < 3:
        pytest.skip("the job makes fewer than three saves before its last steps")
    run = chaos.run(
        job,
        faults.nan(rank=-1).at_step(saves[1] + 1),
        faults.kill(rank="all").at_step(saves[-1] + 2),
    )
    run.verify(*claims)
