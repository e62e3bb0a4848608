"""Two programs that we did not write, one of them in CI, killed twice, as `make frameworks` kills all of them: what
their examples say is lost is found, with these codes and no others, and the changed scripts are exact.
"""

import importlib.util
from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit.engine.runner import Runner
from chaoskit.verdict import Outcome
from tests.claims import CLAIMS
from tests.users import must_have

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: The examples, and the packages that they need besides torch.
PROGRAMS = {"transformers_trainer": ("transformers", "accelerate"), "lightning_trainer": ("lightning",)}
#: What `train.py --augment` loses.
LOST = {
    "transformers_trainer": {"rng-not-restored"},
    "lightning_trainer": {"rng-not-restored", "data-replayed"},
}


@pytest.fixture
def program(request, benchmarks):
    """What an example tells of itself."""
    for package in PROGRAMS[request.param]:
        found = importlib.util.find_spec(package) is not None
        must_have(request, None if found else f"{package} is not installed: pip install -e '.[dev]' brings it")
    return benchmarks.examples(only=[request.param])[request.param]


@pytest.fixture
def killed_twice(shared_store, program):
    """One of its scripts, with augmentation, after a kill in the middle of the second epoch and another one."""

    def run(script):
        # By torchrun, whatever else the program can be launched by: its ranks are forked then. As modules of one
        # package, both scripts are one program, and what the first was seen to import holds for the second. Where
        # hashes are as random as ever there are two parents, which import everything twice.
        job = Job(
            f"{program.name}.{Path(script).stem}", ["{out}", "--augment"], module=True, nproc_per_node=2,
            cwd=str(EXAMPLES), env={**program.env, "PYTHONHASHSEED": "0"},
        )  # fmt: skip
        runner = Runner(shared_store, launch="warm")
        reference = runner.reference(job)
        first = reference.middle_of_epoch(2)
        kill = faults.kill(rank=-1)
        done = runner.run(job, kill.at_step(first), kill.at_step((first + reference.steps) // 2 + 1))
        done.judge(*CLAIMS)
        assert len(done.history.launches) == 3
        return done

    return run


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("transformers_trainer", marks=pytest.mark.exhaustive),
        pytest.param("lightning_trainer", marks=pytest.mark.slow),  # loses more than the other one does
    ],
    indirect=True,
)
def test_what_its_example_says_is_lost_is_lost_and_the_change_mends_it(program, killed_twice):
    bad = killed_twice("train.py")
    codes = {code for verdict in bad.verdicts for code in verdict.codes}
    assert (bad.outcome, codes) == (Outcome.FAIL, LOST[program.name])
    covered = [fault for fault in program.fault if "augment" in fault.variants and "twice" in fault.experiments]
    assert codes <= {code for fault in covered for code in fault.codes}

    good = killed_twice(program.fixed)
    assert good.outcome is Outcome.PASS, good.verdicts
