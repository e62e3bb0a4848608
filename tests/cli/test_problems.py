"""A real run ends with the problems of the job: one cause, however many experiments show it."""

import json
import subprocess
import sys

import pytest

from tests.users import REPOSITORY


@pytest.mark.launches
def test_one_cause_in_several_experiments_is_one_problem(shared_store, tmp_path):
    answer = tmp_path / "answer.json"
    trainer = REPOSITORY / "tests" / "trainers" / "own_rows.py"
    done = subprocess.run(
        [sys.executable, "-m", "chaoskit", "run", "-k", "test_resume or test_all_ranks", "-n", "1",
         "--dir", str(shared_store.root), "--launch", "warm", "--json", str(answer), "--",
         sys.executable, str(trainer), "--out", "{out}", "--lose", "micro-batch"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert answer.exists(), done.stdout + done.stderr
    told = json.loads(answer.read_text())
    assert [one["verdict"] for one in told["experiments"]] == ["fail", "fail"], told
    (problem,) = told["problems"]
    assert (problem["code"], problem["weakness"]) == ("data-skipped", False)
    assert sorted(problem["shown_by"]) == ["test_all_ranks", "test_resume"]
    assert problem["sentence"].startswith("The position in the data is not restored: resumed from step ")
    assert problem["repeat"].startswith("chaoskit replay ") and problem["advice"]
    assert done.returncode == 1 and "1 problem in your job (2 experiments: 2 failed)" in done.stdout
