"""An interrupted `chaoskit run -n N`: its workers clean up for as long as they need, and nobody prints a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaoskit.cli.worker_interrupts import WorkerInterrupts
from chaoskit.errors import ExitCode
from tests.cli.test_main import job, project  # noqa: F401

#: Longer than pytest-xdist lets a worker live that it has told to end.
CLEANING = 11.0
SUITE = """
import time
from pathlib import Path
from types import SimpleNamespace

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
from types import SimpleNamespace
from chaoskit.cli import battery, main
battery.CANDIDATES = (Path({home!r}),)
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.fixture
def started(request, project, until):  # noqa: F811
    """A battery of two experiments in two workers, in a process group of its own, while both run."""
    home = project.parent / "battery"
    (home / "test_suite.py").write_text(SUITE.format(cleaning=getattr(request, "param", CLEANING)))
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


def thrice(process):
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.2)


@pytest.mark.parametrize("started", [1.0], indirect=True)
@pytest.mark.parametrize("end", [pytest.param(subprocess.Popen.kill, id="SIGKILL"), pytest.param(thrice, id="Ctrl-C")])
def test_workers_whose_session_is_gone_end_without_a_word(started, until, end):
    end(started)
    out, err = started.communicate(timeout=30)
    assert "Traceback" not in out + err and "Warning" not in err, out + err
    until(lambda: Path("clean-one").exists() and Path("clean-two").exists(), timeout=30)
    words = err.splitlines()
    assert words[-1] == "chaoskit: interrupted; the results above cover the experiments that had ended" or (
        started.returncode == -signal.SIGKILL
    ), err


def test_a_worker_on_another_machine_gets_no_signal():
    """Its pid may be that of somebody else's process here."""
    elsewhere = SimpleNamespace(gateway=SimpleNamespace(spec=SimpleNamespace(popen=False)))
    plugin = WorkerInterrupts()
    plugin.pytest_testnodeready(elsewhere)
    plugin.pytest_keyboard_interrupt(SimpleNamespace(type=KeyboardInterrupt))
    plugin.pytest_sessionfinish()
