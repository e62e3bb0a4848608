"""The network splits between the nodes of the job, and heals again; nobody helps.

Expected: the job waits out a partition shorter than the timeout of its process group, without a restart and without
a lost step. A longer one crashes every rank, and the job restarts from its last checkpoint. Needs an environment
with nodes: `--env netns --nodes 2`.
"""

import pytest

from chaoskit import checks, faults

pytestmark = pytest.mark.nodes

EPOCH = 2
#: Longest timeout of a process group, in seconds. With a longer one these experiments would take hours.
PATIENCE = 60.0
HALVES = ((0,), (1,))


@pytest.fixture
def reference(chaos, job):
    return chaos.reference(job)


@pytest.fixture
def step(reference):
    return reference.middle_of_epoch(EPOCH)


@pytest.fixture
def timeout(reference):
    """The seconds after which a collective of the job times out."""
    known = reference.group_timeout
    if known is None:
        pytest.skip("the job makes no process group, so none of its collectives can time out")
    if known > PATIENCE:
        pytest.skip(
            f"the job's collectives time out after {known:g} s: for this experiment give it a shorter timeout, "
            f"init_process_group(timeout=...) of at most {PATIENCE:g} s"
        )
    return known


@pytest.fixture
def longer(timeout):
    return 1.5 * timeout + 1


@pytest.fixture
def shorter(timeout):
    return timeout / 3


def test_longer_than_the_timeout(chaos, job, claims, step, longer):
    """Every collective times out, the job crashes, and restarts from its last checkpoint."""
    run = chaos.run(job, faults.partition(groups=HALVES, seconds=longer).at_step(step))
    run.verify(*claims)


def test_shorter_than_the_timeout(chaos, job, claims, step, shorter):
    """The job waits and continues as if nothing had happened: no restart, no lost step."""
    run = chaos.run(job, faults.partition(groups=HALVES, seconds=shorter).at_step(step))
    run.verify(*claims, checks.ridden_out())


def test_one_way(chaos, job, claims, step, longer):
    """The second node receives from the first, but its packets do not arrive there."""
    run = chaos.run(job, faults.one_way(source=1, target=0, seconds=longer).at_step(step))
    run.verify(*claims)


def test_flapping(chaos, job, claims, step, timeout):
    """A link goes down and up, for a third of the timeout in all."""
    # TCP sends again after 0.2 s, then after twice the time, and so on. It may sleep through every pause, and last send
    # when the link has been up again for as long as the outages took. All of that must fit into the timeout, with a
    # margin for a busy machine: 3 outages and 2 pauses of a sixteenth are 5/16 of it, and twice that is 10/16.
    down = timeout / 16
    run = chaos.run(job, faults.flap(node=1, times=3, down=down, up=down).at_step(step))
    run.verify(*claims, checks.ridden_out())


def test_connections_reset(chaos, job, claims, step):
    """A switch forgets its connections: each one is reset, new ones work at once."""
    run = chaos.run(job, faults.reset(node=1).at_step(step))
    run.verify(*claims)


def test_during_a_save(chaos, job, claims, reference, longer):
    """The nodes cannot reach each other in the middle of a save that they make together."""
    if not reference.saves:
        pytest.skip("the job saves nothing")
    partition = faults.partition(groups=HALVES, seconds=longer)
    run = chaos.run(job, partition.during_save(min(2, len(reference.saves))))
    run.verify(*claims)


def test_during_rendezvous(chaos, job, claims, step, shorter):
    """The ranks start again during a partition, by a relaunch or by torchrun: they meet as soon as it is over."""
    kill = faults.kill(rank=-1).at_step(step)
    run = chaos.run(job, kill, faults.partition(groups=HALVES, seconds=shorter).before_relaunch())
    run.verify(*claims)


def test_rendezvous_host(chaos, job, claims, step, longer):
    """The node that hosts the rendezvous is cut off from all others."""
    run = chaos.run(job, faults.isolate(node=0, seconds=longer).at_step(step))
    run.verify(*claims)
