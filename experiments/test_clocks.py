"""The wall clocks of nodes jump back, as when a clock that was wrong is set right; then ranks are killed.

Expected: the job resumes from the checkpoint of the latest step, whatever date it has, and the nodes find each other
again. Nothing that decides how training goes on may depend on the time of day. These experiments change the clock of
the job's own processes, and run on request: `--only clocks`.
"""

from dataclasses import replace

import pytest

from chaoskit import checks, faults

pytestmark = pytest.mark.clocks

#: Seconds: the correction of a clock that nobody had set, that of one which is set now and then, and the longest that a
#: clock stays wrong.
FAR, NEAR, WHILE = -600.0, -5.0, 300.0


@pytest.fixture
def steps(chaos, job):
    """One step after a save, and two steps after the next save."""
    reference = chaos.reference(job)
    saves = [position for position in reference.saves if position + 4 <= reference.steps]
    if len(saves) < 2:
        pytest.skip("the job makes fewer than two saves before its last steps")
    first = max(0, len(saves) // 2 - 1)
    return saves[first] + 1, saves[first + 1] + 2


def test_clocks_set_back(chaos, job, claims, steps):
    """All clocks jump back by ten minutes between two saves. After the second one a rank is killed."""
    jump, kill = steps
    back = faults.skew_clock(node="all", by=FAR, seconds=WHILE)
    run = chaos.run(job, back.at_step(jump), faults.kill(rank=-1).at_step(kill))
    run.verify(*claims)


@pytest.mark.nodes
def test_clock_of_one_node(chaos, job, claims, steps):
    """The clock of the last node jumps back by ten minutes. Whoever trains already goes on."""
    run = chaos.run(job, faults.skew_clock(node=-1, by=FAR, seconds=WHILE).at_step(steps[0]))
    run.verify(*claims, checks.ridden_out())


@pytest.mark.nodes
def test_clocks_apart(chaos, job, claims, steps):
    """The clock of the last node jumps back by five seconds; then a rank is killed, and the agents, which keep running,
    meet again. An agent of torchrun takes another for dead whose clock is 15 s behind."""
    if job.command:
        job = replace(job, env={"PET_MAX_RESTARTS": "2", **job.env})
    else:
        job = replace(job, max_restarts=max(job.max_restarts, 2))
    jump, kill = steps
    apart = faults.skew_clock(node=-1, by=NEAR, seconds=WHILE)
    run = chaos.run(job, apart.at_step(jump), faults.kill(rank=0).at_step(kill))
    run.verify(*claims)
