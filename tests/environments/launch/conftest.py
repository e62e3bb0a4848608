"""Commands that misbehave, started with a keeper; a stage for programs that are launched warm."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.kept import KeptLaunch
from chaoskit.environments.launch.order import Order
from chaoskit.environments.machine import processes
from tests.environments.launch.stage import Stage


@pytest.fixture
def run_id() -> Iterator[str]:
    """Marks every process of the test; none may be left."""
    made = f"test-{uuid.uuid4().hex[:8]}"
    yield made
    left = processes.end_marked(made)
    assert not left, f"left behind: {left}"


@pytest.fixture
def start(tmp_path: Path, run_id: str) -> Iterator[Callable[..., KeptLaunch]]:
    """Start Python code as a job in `tmp_path`, its output in `log`."""
    launches: list[KeptLaunch] = []

    def begin(code: str, *, grace: float = 1.0, **env: str) -> KeptLaunch:
        command = [sys.executable, "-I", "-S", "-c", code]
        env = {"PATH": os.environ["PATH"], "CHAOSKIT_ID": run_id, **env}
        log = tmp_path / "log"
        launcher = ColdLauncher(grace=grace)
        launches.append(launcher.start(Order(command, env=env, cwd=tmp_path, log=log, run_id=run_id)))
        return launches[-1]

    yield begin
    for launch in launches:
        launch.close()


@pytest.fixture
def stage(tmp_path: Path, run_id: str) -> Stage:
    """A stage of the test's own."""
    return Stage(tmp_path, run_id)
