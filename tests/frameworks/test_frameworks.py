"""Two programs that we did not write, as `make frameworks` holds all of them: what their examples say is lost is found,
with these codes and no others, and the changed scripts are exact.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.users import must_have

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
#: The examples, and the packages that they need besides torch.
PROGRAMS = {"transformers_trainer": ("transformers", "accelerate"), "lightning_trainer": ("lightning",)}
#: What is lost where the epoch begins again; and by variant, whichever experiment shows it.
BEGUN_AGAIN = {"rng-not-restored", "data-replayed", "data-skipped"}
LOST = {
    "transformers_trainer": {"plain": set(), "augment": {"rng-not-restored"}},
    "lightning_trainer": {"plain": BEGUN_AGAIN, "augment": BEGUN_AGAIN},
}
#: By torchrun, whatever else the program can be launched by: its ranks are forked then, and the tests are quick.
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2")


@pytest.fixture
def program(request, benchmarks):
    """What an example tells of itself."""
    for package in PROGRAMS[request.param]:
        found = importlib.util.find_spec(package) is not None
        must_have(request, None if found else f"{package} is not installed: pip install -e '.[dev]' brings it")
    return benchmarks.examples(only=[request.param])[request.param]


@pytest.fixture
def sit(shared_store, tmp_path, program):
    """`chaoskit run` on one of its scripts: the codes by column of the page; what passed has none."""

    def run(script, variant, *columns, launch="auto"):
        from frameworks_examples import COLUMNS, VARIANTS, expression

        answer = tmp_path / "answer.json"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "chaoskit", "run", "-n", "2", "--launch", launch, "-k", expression(columns)),
                *("--dir", str(shared_store.root), "--json", str(answer), "--", sys.executable, *TORCHRUN),
                *(str(REPOSITORY / "examples" / program.name / script), "{out}", *VARIANTS[variant]),
            ],
            cwd=tmp_path, env={**os.environ, **program.env}, capture_output=True, text=True,
        )  # fmt: skip
        assert answer.exists(), done.stdout + done.stderr
        found = {
            each["name"].removeprefix("test_"): each for each in json.loads(answer.read_text())["experiments"]
        }
        codes = {}
        for column in columns:
            (each,) = (found[name] for name in COLUMNS[column])
            assert each["verdict"] == ("fail" if each["codes"] else "pass"), each["sentences"]
            codes[column] = set(each["codes"])
        return codes

    return run


@pytest.mark.parametrize("program", PROGRAMS, indirect=True)
def test_what_its_example_says_is_lost_is_lost_and_the_change_mends_it(program, sit):
    lost = LOST[program.name]
    plain = sit("train.py", "plain", "mid-epoch", "twice")
    assert plain == {"mid-epoch": lost["plain"], "twice": lost["plain"]}
    # The first job has shown what the ranks import.
    augment = sit("train.py", "augment", "mid-epoch", launch="warm")
    assert augment == {"mid-epoch": lost["augment"]}
    for variant, found in (("plain", plain), ("augment", augment)):
        assert all(codes <= known(program, column, variant) for column, codes in found.items())
    assert sit(program.fixed, "augment", "twice") == {"twice": set()}


def known(program, column, variant):
    """The codes that its example explains."""
    covered = [fault for fault in program.fault if variant in fault.variants and column in fault.experiments]
    return {code for fault in covered for code in fault.codes}
