"""What the experiments share: the job, and the claims about it.

`chaoskit run -- COMMAND` provides the job. In a checkout, `pytest experiments` alone uses the bundled trainer.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit import Job, checks
from chaoskit.validation import check_duration

CHECKOUT = Path(__file__).parent.parent
TRAINER = CHECKOUT / "tinymodels" / "train.py"

#: How the bundled trainer is told to listen for a notice. SIGTERM it always hears.
NOTICED = {
    **{cloud: ("--notice", cloud) for cloud in ("aws", "gcp", "azure", "file")},
    "slurm": ("--notice", "usr1"),
}
#: Marks of experiments that run only on request.
WIDE = ("corruption", "storage", "numbers", "resources", "clocks")
#: Of these, everything that is asked for by name runs, or is skipped with the reason.
BY_NAME = (*WIDE, "cluster")


def pytest_addoption(parser):
    parser.addini("everything", "run also what runs only on request (--only AREA)", type="bool", default=False)
    parser.addini("also", "experiments that run although they run only on request", type="args", default=[])


def pytest_collection_modifyitems(config, items):
    """Leave out the experiments that cannot run here, or that run only on request.

    Notices of preemption are given in the ways that `--notices aws,slurm` names, for a job handles some and not others.
    Those that need several nodes run with `--nodes 2`, those that need a range of nodes with `--nodes 1:2`, a schedule
    of kills with `--every 30m --during 6h`, and what only a cluster does with `--env kubernetes` or `--env slurm`. The
    whole matrix of damaged checkpoints, all faults of the storage, all wrong numbers but one, all limits of resources
    and all wrong clocks run only on request (`--only storage`, `-k corruption`, `-k storage`, `-k numbers`, `-k
    resources`, `-k clocks`), or by the name of a test.
    """
    nodes = config.getoption("--chaos-nodes") or ""
    missing = ["nodes"] * (not nodes) + ["elastic"] * (":" not in nodes)
    missing += ["notices"] * (not config.getoption("--chaos-notices"))
    missing += ["schedule"] * (not config.getoption("--chaos-every"))
    asked = f"{config.option.keyword} {config.option.markexpr}"
    also = config.getini("also")
    words = [word for word in re.findall(r"\w+", config.option.keyword) if word not in ("not", "and", "or")]
    if not config.getini("everything"):
        missing += [name for name in WIDE if name not in asked]
    env = config.getoption("--chaos-env")
    left = [item for item in items if any(item.get_closest_marker(name) for name in missing) or _elsewhere(item, env)]
    named = [item for item in left if item.originalname in asked or _numbers(item, words) or _cluster(item, words)]
    named += [item for item in left if item.originalname in also]
    wide = [item for item in named if any(item.get_closest_marker(name) for name in BY_NAME)]
    left = [item for item in left if item not in wide]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def pytest_generate_tests(metafunc):
    """Give each notice in every way that `--notices` names."""
    if "cloud" in metafunc.fixturenames:
        given = metafunc.config.getoption("--chaos-notices") or "aws"
        metafunc.parametrize("cloud", [name.strip() for name in given.split(",")])


def _numbers(item, words):
    """Whether the experiment is one of the wrong numbers, and a part of its name was asked for."""
    return item.get_closest_marker("numbers") is not None and any(word in item.name for word in words)


def _elsewhere(item, env):
    """Whether the experiment is one of a cluster, and of another kind than that of `--env`."""
    mark = item.get_closest_marker("cluster")
    return mark is not None and env not in (mark.args or ("kubernetes",))


def _cluster(item, words):
    """Whether the experiment is one of a cluster, and was asked for by its short name."""
    return item.get_closest_marker("cluster") is not None and item.originalname.removeprefix("test_") in words


@pytest.fixture
def job(request):
    if request.config.getoption("--chaos-job") or not TRAINER.is_file():
        return request.getfixturevalue("job")
    # A silent error has to be looked for; these flags make the trainer look.
    numbers = request.node.get_closest_marker("numbers")
    flags = numbers.kwargs.get("flags", ["--check-replicas", "5", "--check-finite", "1"]) if numbers else []
    if request.node.get_closest_marker("notices"):
        # Steps that take a while, so that the job has not ended before its node does.
        flags = [*NOTICED.get(request.getfixturevalue("cloud"), ()), "--step-delay", "0.2"]
    job = Job("tinymodels.train", ["--out", "{out}", *flags], module=True, nproc_per_node=2, cwd=str(CHECKOUT))
    nodes = request.config.getoption("--chaos-nodes") or ""
    if nodes:
        # One rank on each node. Collectives time out soon, so that the experiment does not take long.
        job = replace(job, args=[*job.args, "--timeout", "4"], nproc_per_node=1)
    if ":" in nodes:
        # The agents meet again by themselves, and soon; those that import torch at the same time still find each other.
        meeting = "join_timeout=120,last_call_timeout=3,keep_alive_interval=1"
        # Without it, an agent of torch 2.13 that joins a running job waits forever for the address of the rendezvous.
        unshared = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        # The same samples in each step for any number of nodes. Slow steps: a node that joins must find a running job.
        args = [*job.args, "--global-batch", "16", "--step-delay", "0.05"]
        job = replace(job, args=args, max_restarts=5, rdzv_conf=meeting, env=unshared)
    return job


@pytest.fixture
def claims(request, job):
    """Whatever happens to the job, it ends with its last step as if nothing had happened."""
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


@pytest.fixture
def sound():
    """Whatever number was wrong: the job noticed, no checkpoint contains it, and the reaction was right.

    A job may go back and try again, go back and leave the bad batches out, or leave out one update. Each policy is
    checked for what it promises.
    """
    return [
        checks.completed(),
        checks.no_poisoned_checkpoint(),
        checks.rolled_back_cleanly(),
        checks.no_orphans(),
    ]


@pytest.fixture
def schedule(request):
    """How often a schedule strikes and for how long, in seconds, and the seed of its victims."""
    option = request.config.getoption
    times = {"interval": option("--chaos-every"), "during": option("--chaos-during")}
    return {name: check_duration("", name, given) for name, given in times.items()} | {
        "seed": option("--chaos-seed") or 0
    }


@pytest.fixture
def in_pods(request):
    """Whether the nodes of the job are pods, which the cluster itself takes back."""
    return request.config.getoption("--chaos-env") == "kubernetes"


@pytest.fixture
def step(chaos, job):
    """Two steps after a save, with steps to lose behind it."""
    reference = chaos.reference(job)
    saves = [position for position in reference.saves if position + 4 <= reference.steps]
    if not saves:
        pytest.skip("the job makes no save before its last steps")
    return saves[len(saves) // 2] + 2
