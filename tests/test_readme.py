"""The experiment in the README, as it stands there, in a project of somebody else's."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[1]


def test_the_experiment_in_the_readme_is_a_test(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.S)
    (tmp_path / "test_mine.py").write_text(code)
    shutil.copy(REPOSITORY / "tests" / "trainers" / "simple.py", tmp_path / "train.py")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-c", "/dev/null"],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout and "test_survives_a_lost_rank" in result.stdout
    assert (tmp_path / ".chaoskit" / "runs").is_dir()
