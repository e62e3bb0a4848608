"""A place for one run, whose processes must all be gone in the end; virtual hosts, if they are to be had."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoskit.environments.environment import RunSpec
from chaoskit.environments.machine import processes, scratch
from chaoskit.environments.netns.environment import NetnsEnvironment
from tests.users import must_have


@pytest.fixture
def run_id() -> Iterator[str]:
    """Names a run; no process and no directory of it may be left."""
    made = f"test-{uuid.uuid4().hex[:8]}"
    yield made
    left = processes.end_marked(made)
    directory = scratch.path(made).exists()
    shutil.rmtree(scratch.path(made), ignore_errors=True)
    assert (left, directory) == ([], False)


@pytest.fixture
def place(tmp_path: Path, run_id: str) -> RunSpec:
    """Where a gated run may happen."""
    run_dir = tmp_path / "run"
    for name in ("events", "out"):
        (run_dir / name).mkdir(parents=True)
    return RunSpec(run_dir=run_dir, out=run_dir / "out", cwd=tmp_path, run_id=run_id, gated=True)


@pytest.fixture(scope="session")
def hosts_here(request: pytest.FixtureRequest) -> None:
    """Skips the tests where there are no virtual hosts to be had; with --chaos-require, fails them."""
    must_have(request, NetnsEnvironment.available())
