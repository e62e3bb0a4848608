"""No secret is stored: neither of the environment, nor of the command, nor of the job's variables."""

import os
import subprocess
import sys

import pytest

from tests.users import REPOSITORY

TRAINER = REPOSITORY / "tests" / "trainers" / "alone.py"
#: Where each comes from. The job itself prints none of them.
CANARIES = {
    "the environment": "canary-in-the-environment",
    "a secret of the environment": "canary-token-in-the-environment",
    "a flag": "canary-behind-a-flag",
    "an address": "canary-in-an-address",
    "an assignment": "canary-of-an-assignment",
    "a variable of the job": "canary-of-a-variable",
    "an argument of the relaunch": "canary-of-a-relaunch",
}
SCRIPT = f"""
import runpy, sys, torch
torch.set_rng_state = lambda _: None  # so that something is lost, reported, and put back
del sys.argv[3:]
runpy.run_path({str(TRAINER)!r}, run_name="__main__")
"""


@pytest.fixture
def project(tmp_path):
    """A job with a secret of each kind; everything that is stored of it is below `kept`."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "chaoskit.toml").write_text(f'variables = {{MY_PASSWORD = "{CANARIES["a variable of the job"]}"}}\n')
    return tmp_path


def chaoskit(project, *words):
    environment = {
        **os.environ, "CANARY": CANARIES["the environment"], "CANARY_TOKEN": CANARIES["a secret of the environment"],
        "XDG_STATE_HOME": str(project / "state"),
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "chaoskit", *words], cwd=project, env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.launches
def test_no_secret_is_in_anything_that_is_written(project):
    store = ["--dir", "kept/store"]
    done = chaoskit(
        project, "run", "-k", "one_rank_mid_epoch", *store, "--report", "kept/pages",
        "--launch", "cold", "--json", "kept/r.json", "--junitxml", "kept/j.xml", "--summary", "kept/s.md",
        f"--resume-args=--api-key {CANARIES['an argument of the relaunch']}", "--",
        sys.executable, "train.py", "--out", "{out}", "--hf-token", CANARIES["a flag"],
        "--from", f"https://me:{CANARIES['an address']}@example.org", f"hub.token={CANARIES['an assignment']}",
    )  # fmt: skip
    assert "rng-not-restored" in done.stdout and done.returncode == 1, done.stdout + done.stderr
    assert "Proven" in done.stdout, "the repeated run has the secrets again"
    told = chaoskit(project, "history", *store, "-o", "kept/nights")
    assert told.returncode == 0, told.stderr
    written = [path for path in (project / "kept").rglob("*") if path.is_file()]
    names = {path.name for path in written}
    assert {"run.json", "verdicts.json", "r.json", "j.xml", "s.md", "index.html", "harness.jsonl"} <= names
    found = [
        (where, str(path.relative_to(project)))
        for path in written
        for where, canary in CANARIES.items()
        if canary.encode() in path.read_bytes()
    ]
    assert not found
    assert not [one for one in CANARIES.values() if one in done.stdout + done.stderr + told.stdout]
    # What stands in their place is there, so the job was seen.
    text = b"".join(path.read_bytes() for path in written)
    for name in ("HF_TOKEN", "URL_PASSWORD", "HUB_TOKEN", "MY_PASSWORD", "API_KEY"):
        assert f"{{secret:{name}}}".encode() in text
