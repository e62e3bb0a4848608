"""Some ranks are lost several times while torchrun's agents keep running.

Messages of an earlier rendezvous must not be taken for messages of this one. Expected: the agents restart the
ranks, all of them meet anew each time, and the job resumes from its last checkpoint. Needs an environment with
nodes: `--env netns --nodes 2`.
"""

from dataclasses import replace

import pytest

from chaoskit import faults

pytestmark = pytest.mark.nodes

RESTARTS = 4


@pytest.fixture
def job(job):
    """The job, with agents that may restart its ranks a few times."""
    if job.command:
        return replace(job, env={"PET_MAX_RESTARTS": str(RESTARTS), **job.env})
    return replace(job, max_restarts=max(job.max_restarts, RESTARTS))


def test_a_subset_again_and_again(chaos, job, claims):
    """One rank is killed, then one on another node, then the first again, each time in the middle of training."""
    reference = chaos.reference(job)
    first = reference.first_to_resume_from or 2
    at = [max(first, reference.steps * part // 4) for part in (1, 2, 3)]
    kills = [faults.kill(rank=rank).at_step(step) for rank, step in zip((-1, 0, -1), at, strict=True)]
    run = chaos.run(job, *kills)
    run.verify(*claims)
