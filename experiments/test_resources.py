"""The job runs short: a rank has no memory left, a rank computes slowly, a disk is slow. The kernel sees to it.

Expected: a rank that the kernel kills is a rank that was killed, and the job resumes from its last checkpoint. A slow
rank and a slow disk only cost time. These experiments need control groups, of which an ordinary user often has none;
there they are skipped with a message that says how to get some. So they run on request: `--only resources`.
"""

import pytest

from chaoskit import checks, faults

pytestmark = pytest.mark.resources

#: The share of a processor that a straggler gets, and the bytes per second of a slow disk.
SHARE, SLOW = 0.1, 64 * 1024
#: Seconds after which a fault ends at the latest.
WHILE = 10.0
#: Seconds in which a job that looks for stragglers must have found one.
NOTICED = 30.0


def test_out_of_memory(chaos, job, claims, step):
    """The kernel kills the last rank for want of memory."""
    run = chaos.run(job, faults.out_of_memory(rank=-1).at_step(step))
    run.verify(*claims)


def test_straggler(chaos, job, claims, step):
    """The last rank computes at a tenth of a processor for a few steps. The others wait, and nobody starts again."""
    until = min(step + 20, chaos.reference(job).steps)
    run = chaos.run(job, faults.throttle(rank=-1, cpu=SHARE, until_step=until, seconds=WHILE).at_step(step))
    run.verify(*claims, checks.ridden_out())


def test_straggler_noticed(chaos, job, claims, step):
    """The last rank computes at a tenth of a processor for half a minute, or until the job ends: the job says so."""
    run = chaos.run(job, faults.throttle(rank=-1, cpu=SHARE, seconds=NOTICED).at_step(step))
    run.verify(*claims, checks.straggler_noticed(within=NOTICED))


def test_slow_disk(chaos, job, claims):
    """The disk of the job is slow from one step before a save."""
    reference = chaos.reference(job)
    saves = [position for position in reference.saves if 1 < position < reference.steps]
    if not saves:
        pytest.skip("the job makes no save before its last step")
    run = chaos.run(job, faults.slow_disk(node=-1, bytes_per_second=SLOW, seconds=WHILE).at_step(saves[0]))
    if run.history.faults[0].observed is None:
        pytest.skip("the job never waited for its disk while that was slow")
    run.verify(*claims, checks.ridden_out())
