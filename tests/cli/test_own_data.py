"""Jobs that take their rows themselves, or whose data set gives images: the right cause, and nothing of a good one."""

import json
import subprocess
import sys

import pytest

from tests.users import REPOSITORY

TRAINERS = REPOSITORY / "tests" / "trainers"
slow, exhaustive = pytest.mark.slow, pytest.mark.exhaustive


@pytest.fixture
def resumed(shared_store, tmp_path):
    """What is said of a job that was killed and resumed once: the verdict, the codes, errors of the probe."""

    def run(trainer, *arguments):
        answer = tmp_path / "answer.json"
        done = subprocess.run(
            [sys.executable, "-m", "chaoskit", "run", "-k", "test_resume", "--dir", str(shared_store.root),
             "--launch", "warm", "--no-proof", "--json", str(answer), "--",
             sys.executable, str(TRAINERS / trainer), "--out", "{out}", *arguments],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert answer.exists(), done.stdout + done.stderr
        (told,) = json.loads(answer.read_text())["experiments"]
        return told["verdict"], told["codes"], told["probe_errors"]

    return run


@pytest.mark.launches
@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        pytest.param([], [], marks=slow),
        pytest.param(["--lose", "micro-batch"], ["data-skipped"], marks=slow),
        pytest.param(["--lose", "streams"], ["rng-not-restored"], marks=slow),
        pytest.param(["--of", "memmap"], [], marks=slow),
        pytest.param(["--of", "memmap", "--lose", "streams"], ["rng-not-restored"], marks=exhaustive),
        pytest.param(["--of", "memmap", "--lose", "micro-batch"], ["data-skipped"], marks=exhaustive),
        # The indexing of an array in memory cannot be seen.
        pytest.param(["--of", "array"], [], marks=slow),
        pytest.param(["--of", "array", "--lose", "micro-batch"], ["data-differs"], marks=slow),
    ],
)
def test_rows_of_a_sampler_of_ones_own(resumed, arguments, codes):
    verdict, found, errors = resumed("own_rows.py", *arguments)
    assert (verdict, found, errors) == ("fail" if codes else "pass", codes, [])


@pytest.mark.launches
def test_a_batch_of_another_shape_draws_other_random_numbers(resumed):
    verdict, found, _ = resumed("own_rows.py", "--lose", "shape")
    assert verdict == "fail" and found and "rng-not-restored" not in found, found


@pytest.mark.slow
@pytest.mark.launches
def test_images_drawn_with_other_random_numbers(resumed):
    assert resumed("pictures.py") == ("fail", ["rng-not-restored"], [])
