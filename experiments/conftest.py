"""What the experiments share: the job, and what is claimed of it.

`chaoskit run -- COMMAND` gives the job. In a checkout, `pytest experiments` alone takes the bundled trainer.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit import Job, checks

CHECKOUT = Path(__file__).parent.parent
TRAINER = CHECKOUT / "tinymodels" / "train.py"


def pytest_collection_modifyitems(config, items):
    """What needs several nodes runs where there are some (`--nodes 2`), what needs a range of them where there is one
    (`--nodes 1:2`). The whole matrix of corruption, and all faults of the storage, run where they are asked for
    (`-k corruption`, `-k storage`), by the name of a test as well."""
    nodes = config.getoption("--chaos-nodes") or ""
    missing = ["nodes"] * (not nodes) + ["elastic"] * (":" not in nodes)
    asked = f"{config.option.keyword} {config.option.markexpr}"
    missing += [name for name in ("corruption", "storage") if name not in asked]
    left = [item for item in items if any(item.get_closest_marker(name) for name in missing)]
    named = [item for item in left if item.originalname in asked]
    wide = [item for item in named if any(item.get_closest_marker(name) for name in ("corruption", "storage"))]
    left = [item for item in left if item not in wide]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture
def job(request):
    if request.config.getoption("--chaos-job") or not TRAINER.is_file():
        return request.getfixturevalue("job")
    job = Job("tinymodels.train", ["--out", "{out}"], module=True, nproc_per_node=2, cwd=str(CHECKOUT))
    nodes = request.config.getoption("--chaos-nodes") or ""
    if nodes:
        # The ranks are spread over nodes, and wait for lost ones no longer than a rehearsal should take.
        job = replace(job, args=[*job.args, "--timeout", "4"], nproc_per_node=1)
    if ":" in nodes:
        # The same samples in each step whatever becomes of the nodes; agents that meet again by themselves, and soon.
        meeting = "join_timeout=120,last_call_timeout=1,keep_alive_interval=1"
        # With torch 2.13 an agent that joins a running job otherwise waits in vain to be told where the ranks meet.
        unshared = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        # Steps that take their time: a node that joins must find somebody who still trains.
        args = [*job.args, "--global-batch", "16", "--step-delay", "0.05"]
        job = replace(job, args=args, max_restarts=5, rdzv_conf=meeting, env=unshared)
    return job


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
