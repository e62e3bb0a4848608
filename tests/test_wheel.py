"""The battery comes along in the wheel, and no package called `experiments` does."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[1]


def test_the_battery_runs_from_an_unpacked_wheel(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(REPOSITORY)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    top = {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")}
    assert top == {"chaoskit"}
    assert (unpacked / "chaoskit" / "probe" / "site" / "sitecustomize.py").is_file()
    for stub in ("faults", "checks"):
        assert (unpacked / "chaoskit" / stub / "__init__.pyi").is_file()
    templates = Path("chaoskit", "report", "html", "templates")
    packed = {path.name for path in (unpacked / templates).iterdir()}
    assert packed == {path.name for path in (REPOSITORY / templates).iterdir()}
    listed = subprocess.run(
        [sys.executable, "-c", "import chaoskit.cli.main as c; print(c.__file__); c.main(['run', '--list'])"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(unpacked)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert str(unpacked) in listed.stdout and "test_one_rank_mid_epoch" in listed.stdout, (
        listed.stdout + listed.stderr
    )
