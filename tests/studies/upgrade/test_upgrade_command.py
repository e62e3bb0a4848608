"""The command: what it refuses before anything runs, what it says of two equal sides, and what an interrupt leaves."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaoskit.cli import main
from chaoskit.engine.run_store import Store
from chaoskit.studies.nights.archive import Archive
from tests.studies.upgrade.conftest import TRAINERS

JOB = ["--", "torchrun", "--nproc-per-node", "2", str(TRAINERS / "simple.py"), "--out", "{out}"]
OURS = ["--old", sys.executable, "--new", sys.executable]


@pytest.mark.parametrize(
    "words, said",
    [
        ([*OURS], "the command of the job is missing: put it after '--'"),
        ([*OURS, "--band", "2", *JOB], "--band: 2 is out of range"),
        ([*OURS, "-o", "-", *JOB], "-o: the report uses standard output"),
        ([*OURS, "--json", "absent/u.json", *JOB], "--json: 'absent/u.json' is in"),
        ([*OURS, "-k", "no_such_thing", *JOB], "selects no experiment"),
        ([*OURS, "--", "bash", "train.sh", "{out}"], "has no program 'bash'"),
        ([*OURS, "--", "torchrun", "train.py"], "there is no script 'train.py'"),
        (["--old", sys.executable, "--new", "/bin/true", *JOB], "--new: /bin/true is not a Python interpreter"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_runs(words, said, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main.main(["upgrade", *words]) == 2
    assert said in capfd.readouterr().err
    assert not (tmp_path / ".chaoskit").exists()


def command(*words, twin=None):
    ours = ["--old", sys.executable, "--new", twin or sys.executable]
    return [sys.executable, "-m", "chaoskit", "upgrade", *ours, *words, "-k", "test_resume", "-n", "1", *JOB]


@pytest.mark.slow
def test_an_upgrade_to_the_same_changes_nothing(tmp_path):
    done = subprocess.run(
        command("--json", "u.json", "-o", "u.html"), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "old and new have the same version of every package" in done.stderr
    assert "1 experiment under both interpreters: no verdict differs" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("NOTHING GOT WORSE")
    told = json.loads((tmp_path / "u.json").read_text())
    assert [one["verdict"] for one in told["crossings"]] == ["exact"] * 4
    assert (told["answer"], told["versions"], told["compare"]["verdicts"]) == ("same", {}, [])
    assert 'id="checkpoints"' in (tmp_path / "u.html").read_text()


@pytest.mark.slow
def test_an_interrupt_leaves_nothing_behind_and_keeps_what_had_ended(tmp_path):
    log = tmp_path / "log"
    with log.open("w") as errors:
        harness = subprocess.Popen(
            command("--json", "u.json"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, text=True,
            # A shell that runs the tests in the background has them ignore Ctrl-C, and that is inherited.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
    deadline = time.monotonic() + 300
    while "the launcher and its ranks" not in log.read_text():  # the first crossing
        assert harness.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    harness.send_signal(signal.SIGINT)
    said, _ = harness.communicate(timeout=120)
    assert harness.returncode == 130
    assert "1 experiment under both interpreters: no verdict differs" in said and "no checkpoint was exchanged" in said
    told = json.loads((tmp_path / "u.json").read_text())
    assert told["old"]["suite"] and told["new"]["suite"] and told["crossings"] == []
    kept = Archive(Store(tmp_path / ".chaoskit"))
    assert [kept.read(path).status for path in kept.all()] == ["finished", "finished"]
    assert not [path for path in Path("/proc").glob("[0-9]*/environ") if str(tmp_path).encode() in _read(path)]


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
