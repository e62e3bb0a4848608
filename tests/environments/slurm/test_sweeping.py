"""What a killed harness leaves in the queue is cancelled, and nothing else."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.environments.machine import processes, scratch
from chaoskit.environments.slurm.commands import SlurmCommands
from chaoskit.environments.slurm.run_mark import RunMark
from chaoskit.environments.slurm.sweeping import swept

pytestmark = pytest.mark.launches

HARNESS = """
import sys, time
from pathlib import Path
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.slurm.environment import SlurmEnvironment
place = Path(sys.argv[1])
with SlurmEnvironment(RunSpec(place, place / "out", place, "killed-harness")) as env:
    env.launch(0, ["sh", "-c", "trap '' TERM; sleep 1000"])
    if sys.argv[2] == "suspended":
        env.suspend()
        while not env.is_suspended():
            time.sleep(0.1)
    print("up", flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["running", "suspended"])
def test_a_killed_harness(slurm, tmp_path, until, how):
    for name in ("events", "out"):
        (tmp_path / name).mkdir()
    words = [sys.executable, "-c", HARNESS, str(tmp_path), how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.getcwd()}) as harness:
        assert harness.stdout is not None and harness.stdout.readline() == b"up\n"
        (left,) = slurm.queued()
        assert swept(SlurmCommands()) == ()  # its owner lives
        harness.send_signal(signal.SIGKILL)
    # Others have such jobs: one without a comment, one with half of ours, one of a harness that lives.
    mark = RunMark.of_run("other")
    comments = ["", "chaoskit run=killed-harness", str(mark), str(replace(mark, host="elsewhere", pid=2**22))]
    others = {
        slurm.command("sbatch", "--parsable", f"--comment={comment}", "-o/dev/null", "--wrap", "sleep 99").strip()
        for comment in comments
    }
    try:
        assert swept(SlurmCommands()) == (f"job {left} of Slurm",)
        until(lambda: set(slurm.queued()) == others, timeout=60)
        assert swept(SlurmCommands()) == ()
    finally:
        slurm.command("scancel", *others)
        until(lambda: slurm.queued() == [], timeout=60)
        processes.end_marked("killed-harness")
        scratch.discard(scratch.path("killed-harness"))
    assert not Path(scratch.path("killed-harness")).exists()


TWO_LAUNCHES = (
    HARNESS.partition("    env.launch")[0]
    + """
    env.launch(0, ["sleep", "1000"])
    env.suspend()
    while not env.is_suspended():
        env.wait(0.1)
    env.resume()
    env.launch(1, ["sleep", "1000"])
    env.stop()
"""
)


@pytest.mark.exhaustive
def test_25_kills_at_random_moments(slurm, tmp_path, until):
    draw, found = random.Random(0), Counter()
    for number in range(25):
        place = tmp_path / str(number)
        for name in ("events", "out"):
            (place / name).mkdir(parents=True)
        words = [sys.executable, "-c", TWO_LAUNCHES, str(place)]
        with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": os.getcwd()}) as harness:
            with suppress(subprocess.TimeoutExpired):
                harness.wait(draw.uniform(0.2, 22))
            harness.kill()
        found[len(slurm.queued())] += 1
        deadline = time.monotonic() + 60
        while slurm.queued():
            assert time.monotonic() < deadline
            swept(SlurmCommands())
            time.sleep(0.2)
        scratch.discard(scratch.path("killed-harness"))
        assert processes.marked("killed-harness") == []
    print(f"jobs in the queue after a kill, and how often: {dict(found)}")
