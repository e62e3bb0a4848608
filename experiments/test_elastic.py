"""The job continues with fewer nodes, and with more again: its ranks meet anew and redistribute the checkpoint.

Expected: the training consumes each sample exactly once, every step has its global batch and its learning rate, and
losses stay within a band of those of the uninterrupted run. They cannot be bitwise equal, because sums have another
order and the ranks have other random streams. Needs a range of nodes: `--env netns --nodes 1:2`.
"""

from dataclasses import replace

import pytest

from chaoskit import NodeLossPolicy, checks, faults

pytestmark = [pytest.mark.nodes, pytest.mark.elastic]

EPOCH = 2
#: Largest relative difference between a loss and that of the uninterrupted run.
BAND = 0.05


@pytest.fixture
def claims():
    """Claims that hold for every number of ranks."""
    return [
        checks.completed(),
        checks.resumed_from_last_valid(),
        checks.state_restored(),
        checks.samples_exactly_once(),
        checks.global_batch_kept(),
        checks.lr_schedule_kept(),
        checks.checkpoints_faithful(),
        checks.matches_reference(band=BAND),
        checks.stays_finite(),
        checks.no_orphans(),
    ]


@pytest.fixture
def reference(chaos, job):
    return chaos.reference(job)


def sizes(run):
    """The numbers of ranks of the job, one after the other."""
    found = [inc.world_size for inc in run.history.incarnations if inc.first_step is not None]
    return [size for at, size in enumerate(found) if at == 0 or size != found[at - 1]]


def test_shrink(chaos, job, claims, reference):
    """A node is lost for good; the others continue without it."""
    job = replace(job, node_loss=NodeLossPolicy(lost="gone"))
    run = chaos.run(job, faults.kill_node(node=-1).at_step(reference.middle_of_epoch(EPOCH)))
    run.verify(*claims)
    full = reference.world_size
    assert sizes(run) == [full, full - full // reference.nodes]


def test_shrink_and_grow(chaos, job, claims, reference):
    """A node is lost, the others continue, and a fresh one joins them later."""
    job = replace(job, node_loss=NodeLossPolicy(lost="gone"))
    first = reference.middle_of_epoch(EPOCH)
    later = first + (reference.steps - first) // 4
    run = chaos.run(job, faults.kill_node(node=-1).at_step(first), faults.add_node().at_step(later))
    run.verify(*claims)
    full = reference.world_size
    assert sizes(run) == [full, full - full // reference.nodes, full]


def test_node_returns(chaos, job, claims, reference):
    """A lost node comes back while the others train, and they let it join."""
    job = replace(job, node_loss=NodeLossPolicy(lost="returns", after=8))
    run = chaos.run(job, faults.kill_node(node=-1).at_step(reference.middle_of_epoch(EPOCH)))
    run.verify(*claims)


def test_scaled_down(chaos, job, claims, reference):
    """The scheduler removes a node: it asks the node's agent to end."""
    run = chaos.run(job, faults.remove_node(node=-1).at_step(reference.middle_of_epoch(EPOCH)))
    run.verify(*claims)
    full = reference.world_size
    assert sizes(run) == [full, full - full // reference.nodes]
