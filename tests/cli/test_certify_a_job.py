"""`chaoskit certify -- COMMAND` on real jobs: a good trainer, and two that are broken on purpose."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chaoskit.errors import ExitCode
from tests.users import REPOSITORY


def certify(place, *words):
    """Call the command from the checkout; its exit code, output, and the rows of the certificate by id."""
    command = [sys.executable, "-m", "chaoskit", "certify", "--dir", str(place / "store"), "-o", str(place), *words]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    path = place / "certificate.json"
    rows = {row["id"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}
    return done, rows


@pytest.mark.exhaustive
@pytest.mark.launches
@pytest.mark.parametrize(
    ("trainer", "experiments", "failed"),
    [
        ("train", "test_resume or test_flipped_bit", {"formats"}),
        ("gallery.data_restart_zero", "test_resume", {"data-position", "resume-losses", "formats"}),
        ("gallery.no_checksum", "test_flipped_bit", {"corruption-refused", "formats"}),
    ],
)
def test_a_job_is_certified_for_what_ran_and_for_nothing_else(tmp_path, trainer, experiments, failed):
    job = [
        "--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", f"tinymodels.{trainer}",
        "--out", "{out}",
    ]  # fmt: skip
    done, rows = certify(tmp_path, "-k", experiments, "--no-proof", *job)
    assert done.returncode == ExitCode.FAIL, done.stdout + done.stderr
    assert {id for id, row in rows.items() if row["state"] == "failed"} == failed
    assert {id for id, row in rows.items() if row["state"] == "proven"} <= {"rest"}
    assert rows["formats"]["codes"] == ["unpickles-freely"] and rows["formats"]["runs"]
    verified, _ = certify(tmp_path, "--verify", str(tmp_path / "certificate.json"))
    assert verified.returncode == ExitCode.FAIL and "It holds here and now" in verified.stdout
