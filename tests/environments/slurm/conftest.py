"""A run whose nodes are those of a real Slurm; nothing of it may be left in the queue."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.slurm_cluster.cluster import SlurmCluster

#: Says on which node it is, and for which launch its probe would take it.
TELL = (
    "import os, sys, time; sys.path.insert(0, {root!r}); from chaoskit.protocol.scheduled import resolve; "
    "resolve(os.environ); print(os.environ['CHAOSKIT_NODE'], os.environ['CHAOSKIT_LAUNCH'], flush=True); "
    "time.sleep(1000)"
)


@pytest.fixture
def python() -> Callable[[str], list[str]]:
    """The command of a process without a probe."""
    return lambda code: [sys.executable, "-I", "-S", "-c", code]


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> list[str]:
    """The command of a process that tells where it is, and goes on for long."""
    return [sys.executable, "-I", "-S", "-c", TELL.format(root=str(request.config.rootpath))]


@pytest.fixture
def running(slurm: SlurmCluster) -> Callable[[], list[str]]:
    """The numbers of the jobs in the queue that run."""
    return lambda: slurm.command("squeue", "-h", "-t", "running", "-o", "%i").split()
