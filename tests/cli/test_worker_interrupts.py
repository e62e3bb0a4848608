"""An interrupted `chaoskit run -n N`: its workers clean up for as long as they need, and nobody prints a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaoskit.errors import ExitCode
from tests.cli.test_main import job, project  # noqa: F401

#: Longer than pytest-xdist lets a worker live that it has told to end.
CLEANING = 11.0
SUITE = """
import time
from pathlib import Path

def wait(name):
    Path("up-" + name).touch()
    try:
        time.sleep(300)
    finally:
        began = time.monotonic()
        while time.monotonic() < began + {cleaning}:
            time.sleep(0.1)
        Path("clean-" + name).touch()

def test_one(chaos, job):
    wait("one")

def test_two(chaos, job):
    wait("two")
"""
MAIN = """
import sys
from pathlib import Path
from chaoskit.cli import battery, main
battery.CANDIDATES = (Path({home!r}),)
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.fixture
def started(project, until):  # noqa: F811
    """A battery of two experiments in two workers, in a process group of its own, while both run."""
    home = project.parent / "battery"
    (home / "test_suite.py").write_text(SUITE.format(cleaning=CLEANING))
    words = [sys.executable, "-c", MAIN.format(home=str(home)), "run", "-n", "2", "--no-proof", *job()]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until(lambda: Path("up-one").exists() and Path("up-two").exists(), timeout=60)
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(lambda process: process.send_signal(signal.SIGTERM), id="SIGTERM to chaoskit alone"),
        pytest.param(lambda process: process.send_signal(signal.SIGINT), id="SIGINT to chaoskit alone"),
        pytest.param(lambda process: os.killpg(process.pid, signal.SIGINT), id="Ctrl-C in a terminal"),
    ],
)
def test_workers_clean_up(started, interrupt):
    interrupt(started)
    out, err = started.communicate(timeout=90)
    assert started.returncode == ExitCode.INTERRUPTED, out + err
    assert Path("clean-one").exists() and Path("clean-two").exists()
    assert "Traceback" not in out + err and "interrupted" in err, out + err


def test_a_second_interrupt_does_not_wait(started):
    started.send_signal(signal.SIGTERM)
    time.sleep(1.0)
    started.send_signal(signal.SIGTERM)
    out, err = started.communicate(timeout=CLEANING)
    assert started.returncode == ExitCode.INTERRUPTED and "Traceback" not in out + err, out + err
    assert not Path("clean-one").exists()
