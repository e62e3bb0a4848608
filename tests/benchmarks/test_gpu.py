"""The checks on a GPU start and run to their end, on the CPU and at their smallest size: there are none here to see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GPU = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"
SMALLEST = {
    "throughput.py": ("--mib 4 --rounds 1", "of 79"),
    "overhead.py": ("--layers 1 --width 64 --tokens 128 --rounds 1", "step without the probe"),
    "kinds.py": ("--only copied --experiments one_rank_mid_epoch", "one_rank_mid_epoch pass; 36 steps"),
    "determinism.py": ("--only nothing", "without nothing: test_control pass"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SMALLEST))
def test_it_runs(name):
    arguments, shown = SMALLEST[name]
    command = [sys.executable, GPU / name, "--device", "cpu", *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and shown in done.stdout, done.stdout + done.stderr
