"""Stacks of ranks that hang, that are stopped, and that cannot tell."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from chaoskit.environments.machine import processes, stacks
from chaoskit.environments.records.ranks import Rank

SIGNAL = int(signal.SIGRTMAX) - 3

#: Hangs inside a C function that never lets another thread of Python run.
HANGING = """
import ctypes, faulthandler, os, sys, threading, time
file = open(f"{sys.argv[1]}/logs/stack-{os.getpid()}.txt", "w")
faulthandler.register(int(sys.argv[2]), file=file, all_threads=True)
def waits_for_nothing():
    print(flush=True)
    while True:
        ctypes.PyDLL(None).sleep(1000)  # until the next signal
def another_thread():
    time.sleep(1000)
threading.Thread(target=another_thread, daemon=True).start()
time.sleep(0.05)
waits_for_nothing()
"""


@pytest.fixture
def hanging(place):
    (place.run_dir / "logs").mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", HANGING, str(place.run_dir), str(SIGNAL)], stdout=subprocess.PIPE
    )
    child.stdout.readline()
    yield Rank(1, child.pid, processes.identify(child.pid).started, 0, 0, 0.0, SIGNAL)
    child.kill()
    child.wait()
    child.stdout.close()


def test_a_hanging_rank_tells_where(place, hanging):
    for _ in range(2):
        told = stacks.collect(place.run_dir, [hanging])
        assert list(told) == [1]
        assert "waits_for_nothing" in told[1] and "another_thread" in told[1]
        assert told[1].count("waits_for_nothing") == 1  # what was asked now, not what was told before


def test_who_has_no_handler_is_left_alone(place):
    """It would die of the signal: a launcher, or a rank that is still starting."""
    (place.run_dir / "logs").mkdir()
    child = subprocess.Popen(["sleep", "100"])
    try:
        rank = Rank(0, child.pid, processes.identify(child.pid).started, 0, 0, 0.0, SIGNAL)
        assert stacks.collect(place.run_dir, [rank]) == {} and child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_who_cannot_tell(place, hanging, until):
    dead = Rank(0, hanging.pid, 1, 0, 0, 0.0, SIGNAL)
    mute = Rank(2, hanging.pid, hanging.start, 0, 0, 0.0, None)
    assert stacks.collect(place.run_dir, [dead, mute]) == {}
    process = processes.Process(hanging.pid, hanging.start)
    assert processes.state(process) == "running"
    processes.send(process, signal.SIGSTOP)
    until(lambda: processes.state(process) == "stopped")
    assert stacks.collect(place.run_dir, [hanging]) == {1: "stopped (SIGSTOP)"}


def test_one_that_does_not_answer_is_left_out(place, hanging, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    began = time.monotonic()
    assert stacks.collect(elsewhere, [hanging], timeout=0.2) == {}
    assert time.monotonic() - began < 1
