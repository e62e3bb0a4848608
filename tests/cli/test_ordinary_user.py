"""Nothing of the local environment needs root: a whole run as an ordinary user."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TRAINER = Path(__file__).parents[1] / "trainers" / "alone.py"
NOBODY = 65534


def test_a_run_as_an_ordinary_user(tmp_path):
    place = tmp_path / "theirs"
    place.mkdir()
    before = []
    if os.getuid() == 0:
        os.chown(place, NOBODY, NOBODY)
        # Without any right but to read: Python itself may lie where only root can look.
        reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        before = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *reading]
        assert shutil.which("setpriv"), "setpriv (util-linux) is needed to become an ordinary user"
    result = subprocess.run(
        [
            *before, sys.executable, "-m", "chaoskit", "run", "-k", "one_rank", "--",
            sys.executable, str(TRAINER), "--out", "{out}",
        ],
        cwd=place, env={**os.environ, "HOME": str(place)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "(2 experiments: 2 passed)" in result.stdout and "launched warm" in result.stdout, result.stdout
    owners = {path.stat().st_uid for path in place.rglob("*")}
    assert owners == {NOBODY if before else os.getuid()}
