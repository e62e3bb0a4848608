"""The images as a fixture: the tests that ask for it need a Docker daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docker_images import images
from tests.users import must_have


@pytest.fixture(scope="session")
def docker_image(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Gives the name of an image of a kind; skips without a daemon, and fails with --chaos-require."""
    must_have(request, images.no_daemon())
    return images.image


@pytest.fixture(scope="session")
def build_image(docker_image: Callable[..., str]) -> Iterator[Callable[[str, Path], str]]:
    """Build the Dockerfile of a directory on a base; the image is removed in the end, its layers stay."""
    made: list[str] = []

    def build(base: str, context: Path) -> str:
        name = f"chaoskit-tests-built:{context.name.lower()}-on-{base}-{os.getpid()}"
        if name in made:
            return name
        labels = ("--label", f"{images.LABEL}=built")
        words = ("--build-arg", f"BASE={docker_image(base)}", "--tag", name, str(context))
        images.docker("build", "--quiet", *labels, *words)
        made.append(name)
        return name

    yield build
    for name in made:
        images.docker("rmi", "--no-prune", name)
