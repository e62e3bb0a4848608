"""`chaoskit run --every --during --notices` on real jobs: the good trainer, and handlers that break at a strike."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chaoskit.cli import battery
from chaoskit.errors import ExitCode
from tests.users import REPOSITORY


@pytest.fixture
def preempted(shared_store, tmp_path):
    """Runs the schedule of notices on a trainer with two ranks; the exit code and the result."""

    def run(cloud, *args, module="tinymodels.train"):
        words = [
            sys.executable, "-m", "chaoskit", "run", "--dir", str(shared_store.root), "-k", "preempted_again",
            "--json", str(tmp_path / "out.json"), "--launch", "warm", "--no-proof", "--every", "15s", "--during", "45s",
            "--notices", cloud, "--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
            "-m", module, "--out", "{out}", "--step-delay", "0.3", *args,
        ]  # fmt: skip
        done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        (found,) = json.loads((tmp_path / "out.json").read_text())["experiments"]
        return done.returncode, found

    return run


@pytest.mark.launches
@pytest.mark.parametrize(
    ("cloud", "args"),
    [
        pytest.param("aws", ["--notice", "aws"], marks=pytest.mark.slow),
        pytest.param("kubernetes", [], marks=pytest.mark.exhaustive),
    ],
)
def test_a_good_trainer_saves_at_every_strike(preempted, cloud, args):
    code, found = preempted(cloud, *args)
    assert code == ExitCode.PASS and found["verdict"] == "pass", found


#: One epoch of 75 steps. Neither its end nor a save of the job's own comes within a grace.
LONG = ("--save-every", "60", "--samples", "2400", "--epochs", "1")


@pytest.mark.launches
@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("notice_each_epoch", marks=pytest.mark.exhaustive),
        pytest.param("notice_one_rank", marks=pytest.mark.exhaustive),
    ],
)
def test_a_broken_handler_is_named_with_its_strike(preempted, broken):
    code, found = preempted("aws", "--notice", "aws", *LONG, module=f"tinymodels.gallery.{broken}")
    assert code == ExitCode.FAIL and "no-emergency-checkpoint" in found["codes"], found
    assert any("(strike " in said for said in found["sentences"]), found["sentences"]


def test_the_experiment_is_there_once_for_each_notice():
    kills = {"test_killed_again_and_again"}
    chosen = battery.Selection("again_and_again and (killed or preempted)")
    assert {*battery.titles(chosen, every="30m")} == kills
    assert {*battery.titles(chosen, every="30m", notices="aws,slurm")} == {
        *kills, "test_preempted_again_and_again[aws]", "test_preempted_again_and_again[slurm]",
    }  # fmt: skip
    assert not any("again_and_again" in name for name in battery.titles(notices="aws"))
