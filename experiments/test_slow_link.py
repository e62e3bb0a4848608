"""The network between the nodes is slow or noisy, or has forgotten a name, for a time; the job trains on.

Expected: everything takes longer, and nothing is lost. Needs an environment with nodes: `--env netns --nodes 2`.
"""

import pytest

from chaoskit import checks, faults

pytestmark = pytest.mark.nodes

EPOCH = 2
#: Duration in seconds: at least a few steps of training.
WHILE = 3


@pytest.mark.parametrize(
    "fault",
    [
        faults.delay(node=1, ms=20, jitter=10, seconds=WHILE),
        faults.bandwidth(node=1, kbit=8000, seconds=WHILE),
        faults.packet_loss(node=1, percent=2, seconds=WHILE),
        faults.packet_corruption(node=1, percent=1, seconds=WHILE),
        faults.forget_names(node=1, seconds=WHILE),
    ],
    ids=lambda fault: fault.action.name,
)
def test_ridden_out(chaos, job, claims, fault):
    """TCP resends lost and damaged packets, and existing connections need no names: the fault costs only time."""
    step = chaos.reference(job).middle_of_epoch(EPOCH)
    run = chaos.run(job, fault.at_step(step))
    run.verify(*claims, checks.ridden_out())
