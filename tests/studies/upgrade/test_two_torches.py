"""Two versions of torch, and checkpoints that cross from one to the other and back. `make upgrade` runs this."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.engine.runner import Runner
from chaoskit.job import Job
from chaoskit.studies.upgrade.crossing import cross
from chaoskit.studies.upgrade.interpreter import Interpreter
from chaoskit.studies.upgrade.upgrade import Upgrade
from tests.studies.upgrade.conftest import TRAINERS, own

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_the_bundled_trainer_crosses_both_ways(newer, parallel, tmp_path):
    command = [
        sys.executable,
        "-m",
        "chaoskit",
        "upgrade",
        "--old",
        sys.executable,
        "--new",
        newer,
        "-k",
        "test_resume",
    ]
    command += [
        "--dir",
        str(tmp_path / "store"),
        "--json",
        str(tmp_path / "u.json"),
        "-o",
        str(tmp_path / "u.html"),
        "--",
    ]
    command += [
        "torchrun",
        "--nproc-per-node",
        "2",
        "-m",
        "tinymodels.train",
        "--parallel",
        parallel,
        "--out",
        "{out}",
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "u.json").read_text())
    assert told["old"]["versions"]["torch"] != told["new"]["versions"]["torch"]
    assert told["old"]["algorithm"] == told["new"]["algorithm"] == "xxh3-128"
    found = {(one["saved"], one["resumed"]): one["verdict"] for one in told["crossings"]}
    assert found[("old", "old")] == found[("new", "new")] == "exact"
    assert {found[("old", "new")], found[("new", "old")]} <= {"exact", "within"}
    assert told["compare"]["compared"] and not told["compare"]["verdicts"]
    assert told["new"]["versions"]["torch"] in (tmp_path / "u.html").read_text()
    assert "launched cold" not in done.stdout


@pytest.fixture(scope="module")
def torches(newer, shared_store):
    """Both uninterrupted runs of a job that knows which interpreter began."""
    words = ["torchrun", "--nproc-per-node", "2", str(TRAINERS / "border.py"), "--out", "{out}"]
    there = Interpreter.examine(newer, option="--new")
    return Upgrade.of(own(), there, Job.from_command(words)).measured(Runner(shared_store))


@pytest.mark.parametrize("way, word", [("forget", "wrong"), ("refuse", "no-load"), ("wobble", "wrong")])
def test_what_breaks_at_the_border_is_found(torches, shared_store, way, word):
    runner = Runner(shared_store, resume_args=["--border", way])
    for saves, resumes in ((torches.old, torches.new), (torches.new, torches.old)):
        assert cross(runner, saves, resumes, torches.band).word == word
    assert cross(runner, torches.new, torches.new, torches.band).word == "exact"
