"""`chaoskit run --every --during` on real jobs: the good trainer, one that resumes exactly only twice, one that ends
too soon."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from chaoskit.cli import battery
from chaoskit.cli.main import main
from chaoskit.errors import ExitCode
from tests.users import REPOSITORY

THIRD = REPOSITORY / "tests" / "trainers" / "third_resume.py"


@pytest.fixture
def scheduled(shared_store, tmp_path):
    """Runs the schedule on a trainer; the exit code, the result and the verdicts by check."""

    def run(*options, trainer=("-m", "tinymodels.train")):
        words = [
            sys.executable, "-m", "chaoskit", "run", "--dir", str(shared_store.root), "-k", "again_and_again",
            "--json", str(tmp_path / "out.json"), "--launch", "warm", "--no-proof", *options,
            "--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *trainer, "--out", "{out}",
            "--step-delay", "0.3",
        ]  # fmt: skip
        done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        (found,) = json.loads((tmp_path / "out.json").read_text())["experiments"]
        return done.returncode, found

    return run


@pytest.mark.slow
@pytest.mark.launches
def test_a_good_trainer_recovers_exactly_each_time(scheduled):
    code, found = scheduled("--every", "6s", "--during", "24s", "--seed", "1")
    assert code == ExitCode.PASS and found["verdict"] == "pass", found


@pytest.mark.exhaustive  # by the clock: which strike finds the job at work depends on what else runs
@pytest.mark.launches
def test_the_recovery_that_was_not_exact_is_named(scheduled):
    code, found = scheduled("--every", "6s", "--during", "24s", trainer=(str(THIRD),))
    assert code == ExitCode.FAIL and "rng-not-restored" in found["codes"], found
    # On a slow machine the first kill comes before the first save: then the third resume is the fourth recovery.
    named = re.compile(r"recovery [34] of 4, after 'kill rank")
    assert any(map(named.match, found["sentences"])), found["sentences"]


@pytest.mark.slow
@pytest.mark.launches
def test_a_job_that_ends_before_the_first_kill_is_inconclusive(scheduled):
    code, found = scheduled("--every", "10m", "--during", "1h")
    assert code == ExitCode.INCONCLUSIVE and found["codes"] == ["fault-not-observed"], found


def test_the_experiment_is_there_only_if_it_is_asked_for():
    assert "test_killed_again_and_again" not in battery.titles()
    assert "test_killed_again_and_again" in battery.titles(every="30m")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--every", "30m"], "--every and --during belong together"),
        (["--every", "often", "--during", "1h"], "must be a time such as '90s', '30m' or '6h', not 'often'"),
    ],
)
def test_half_a_schedule_is_refused(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_job = ["run", *words, "--", sys.executable, "-c", "pass", "{out}"]
    try:
        code = main(with_job)
    except SystemExit as end:
        code = end.code
    assert code == ExitCode.USAGE and said in capsys.readouterr().err
