"""What the experiments share: the job, and what is claimed of it.

`chaoskit run -- COMMAND` gives the job. In a checkout, `pytest experiments` alone takes the bundled trainer.
"""

from pathlib import Path

import pytest

from chaoskit import Job, checks

CHECKOUT = Path(__file__).parent.parent
TRAINER = CHECKOUT / "tinymodels" / "train.py"


@pytest.fixture
def job(request):
    if request.config.getoption("--chaos-job") or not TRAINER.is_file():
        return request.getfixturevalue("job")
    args, ranks = ["--out", "{out}"], 2
    if request.config.getoption("--chaos-nodes"):
        # The ranks are spread over nodes, and do not wait for lost ones for longer than a rehearsal should take.
        args, ranks = [*args, "--timeout", "4"], 1
    return Job("tinymodels.train", args, module=True, nproc_per_node=ranks, cwd=str(CHECKOUT))


@pytest.fixture
def claims(request, job):
    """Whatever is done to it, the job ends with its last step, as if nothing had been."""
    made = [
        checks.completed(),
        checks.resumed_from_last_valid(),
        checks.state_restored(),
        checks.same_data(),
        checks.checkpoints_faithful(),
        checks.matches_reference(),
        checks.stays_finite(),
        checks.no_orphans(),
    ]
    if job.log_regex or request.config.getoption("--chaos-log-regex"):
        made.append(checks.log_right())
    return made
