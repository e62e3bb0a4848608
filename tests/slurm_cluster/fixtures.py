"""A cluster of real Slurm as a fixture."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm_cluster.cluster import SlurmCluster, processes_of, why_not
from tests.users import must_have


@pytest.fixture(scope="session")
def slurm_daemons(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """One cluster for all tests of a process; skips where there is no Slurm, and fails with --chaos-require."""
    must_have(request, why_not())
    # A short path: munge's socket is there.
    with tempfile.TemporaryDirectory(prefix="chaoskit-slurm-") as directory:
        with SlurmCluster(Path(directory) / "cluster") as cluster:
            yield cluster
        assert processes_of(cluster) == []


@pytest.fixture
def slurm(slurm_daemons: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """The cluster, as every command of Slurm sees it by itself during the test; no job may be left in its queue."""
    for name, value in slurm_daemons.variables.items():
        if name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, value)
    yield slurm_daemons
    left = slurm_daemons.queued()
    if left:
        slurm_daemons.command("scancel", "--signal=KILL", "--full", *left)
        slurm_daemons.command("scancel", *left)
    assert left == []
