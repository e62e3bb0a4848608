"""What `teach` writes is what the maker of references reads: where it is not, every test launches cold controls first,
and passes all the same."""

import sys
from pathlib import Path

import pytest

from chaoskit import Job
from chaoskit.engine.reference_store import learned_before
from chaoskit.engine.run_store import Store
from chaoskit.environments.launch.mode import Mode
from tests.probe.started import MODULES
from tests.warm_modes import TRAINERS, teach

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
KINDS = str(Path(__file__).with_name("kinds") / "trainer.py")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = Store(tmp_path_factory.mktemp("taught") / "chaos")
    teach(made, ("torchrun", "--nproc-per-node", "2", "train.py"))
    return made


@pytest.mark.parametrize(
    "job",
    [
        Job.from_command([*TORCHRUN, "-m", "tinymodels.train", "--out", "{out}"]),
        Job.from_command([*TORCHRUN, str(TRAINERS / "losing.py"), "--out", "{out}"]),
        Job.from_command([sys.executable, str(TRAINERS / "hidden.py"), "--out", "{out}", "--flaw", "cache"]),
        Job.from_command([*TORCHRUN, KINDS, "{out}", "--parallel", "ddp"]),
        Job.from_command(["torchrun", "--nproc-per-node", "2", "train.py", "{out}"]),
        Job(str(TRAINERS / "simple.py"), ["--out", "{out}"]),
        Job(str(TRAINERS / "simple.py"), ["--out", "{out}"], max_restarts=2),
        Job("tinymodels.train", ["--out", "{out}"], module=True, nproc_per_node=2),
    ],
    ids=lambda job: " ".join(Path(word).name for word in job.words()[1:]),
)
def test_a_job_of_a_taught_program_needs_no_cold_control(store, job):
    known = learned_before(store, job)
    assert known is not None
    mode = Mode.from_json(known)
    assert mode.warm and mode.modules == MODULES and mode.threads == "1"


def test_a_program_that_trains_otherwise_when_warm_is_not_taught(store):
    assert learned_before(store, Job(str(TRAINERS / "notices.py"), ["--out", "{out}"])) is None
