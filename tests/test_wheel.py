"""The battery comes along in the wheel, and no package called `experiments` does; the metadata is fit for an index."""

import email
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(place), str(REPOSITORY)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (wheel,) = place.glob("*.whl")
    return wheel


def test_the_metadata_has_classifiers_and_a_page_without_relative_links(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert {"Typing :: Typed", "Framework :: Pytest"} < set(metadata.get_all("Classifier"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = metadata.get_payload()
    assert page.startswith("# chaoskit")
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert all(target.startswith("https://") for target in targets)
    assert "ten minutes" in page and "(docs/" not in page


def test_the_battery_runs_from_an_unpacked_wheel(wheel, tmp_path):
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
