"""A run in containers of an image that has what a team's image has; nothing of it may be left in the daemon."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.environments.docker import objects
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import RunSpec
from tests.docker_images import images
from tests.users import must_have

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def image(request: pytest.FixtureRequest) -> str:
    """The name of an image with Python and torch; skips without a daemon, and fails with --chaos-require."""
    must_have(request, DockerEnvironment.available())
    return images.image()


@pytest.fixture
def place(place: RunSpec, image: str) -> Iterator[RunSpec]:
    """Where a gated run may happen: its containers see the tests at `/tests`."""
    yield replace(place, image=image, program="python3", mounts=(f"{TESTS}:/tests:ro",))
    assert left(place.run_id) == []


def left(run_id: str) -> list[str]:
    """The names of what the daemon has of a run."""
    kinds = (["ps", "--all", "--format", "{{.Names}}"], ["network", "ls", "--format", "{{.Name}}"])
    label = f"label={objects.RUN}={run_id}"
    return [name for kind in kinds for name in docker(*kind, "--filter", label).split()]


def docker(*words: str) -> str:
    """Call the docker client."""
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def rank() -> Callable[[int, int], list[str]]:
    """The command of a process that stands in for a rank and takes so many steps."""

    def command(number: int, steps: int) -> list[str]:
        return ["python3", "-I", "-S", "/tests/environments/stub_rank.py", str(number), str(steps)]

    return command
