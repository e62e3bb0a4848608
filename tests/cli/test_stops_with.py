"""`chaoskit run --stops-with CODE`: trainers that leave with 0 and with 85 after a notice, under each scheduler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.errors import ExitCode
from tests.users import REPOSITORY

#: How a job ends after a notice depends on when that reaches it, which other work beside it delays.
pytestmark = [pytest.mark.exhaustive, pytest.mark.launches]

#: Leaves with 0 after an emergency save. torchrun has a code of its own for a rank that fails: a script tells another.
LEAVES = "tinymodels.gallery.notice_exits_0"
SCRIPT = """\
torchrun --nproc-per-node 1 -m "$1" --out "$2" --notice file --step-delay 0.2 || exit
test -e "$2/model.safetensors" || exit "$3"
"""


@pytest.fixture
def run(tmp_path):
    """Runs one experiment; returns the exit code of chaoskit, what was said, and the result."""

    def experiment(leaves, *options):
        answer = tmp_path / "found.json"
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        words = [
            sys.executable, "-m", "chaoskit", "run", "--notices", "file", "-k", "test_preempted", "-n", "1",
            "--no-proof", "--json", str(answer), *options, "--", "sh", "job.sh", LEAVES, "{out}", str(leaves),
        ]  # fmt: skip
        (tmp_path / "job.sh").write_text(SCRIPT)
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)},
        )  # fmt: skip
        found = json.loads(answer.read_text())["experiments"] if answer.exists() else [None]
        return done.returncode, done.stdout + done.stderr, found[0]

    return experiment


def killed(found):
    """Whether the job was too slow to leave by itself, on a busy machine: then it left with no code of its own."""
    kept = [Path(run, "verdicts.json") for run in found["runs"]]
    return any("was killed at the end of its grace" in path.read_text() for path in kept if path.exists())


@pytest.mark.parametrize(
    ("leaves", "options", "passes"),
    [(0, ("--stops-with", "0"), True), (0, (), False), (85, ("--stops-with", "85"), True),
     (85, ("--stops-with", "0"), False)],
)  # fmt: skip
def test_the_code_that_the_scheduler_needs(run, leaves, options, passes):
    for _ in range(3):
        code, said, found = run(leaves, *options)
        if not killed(found):
            break
    assert found["verdict"] == ("pass" if passes else "fail"), said
    assert code == (ExitCode.PASS if passes else ExitCode.FAIL)
    assert passes or "exited-early" in json.dumps(found)
