"""Both Dockerfiles are really built, on a base of the running system's own files, and what they make runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docker_images.images import docker

ROOT = Path(__file__).resolve().parents[1]
FILES = (ROOT / "Dockerfile", ROOT / "tinymodels" / "Dockerfile")


@pytest.mark.parametrize("file", FILES, ids=("chaoskit", "tinymodels"))
def test_the_base_is_pinned_and_the_user_is_ordinary(file):
    lines = file.read_text().splitlines()
    assert any(re.fullmatch(r"ARG BASE=python:3\.\d+\.\d+-slim-[a-z]+", line) for line in lines)
    assert all(line.startswith("FROM ${BASE}") for line in lines if line.startswith("FROM"))
    (*_, user) = [line for line in lines if line.startswith("USER")]
    assert user != "USER root"


@pytest.mark.slow
def test_chaoskit_runs_in_its_image_as_any_user(build_image):
    image = build_image("network", ROOT)  # it has nft: no package is installed
    about = json.loads(docker("image", "inspect", image))[0]["Config"]
    frozen = docker("run", "--rm", "--entrypoint", "cat", image, about["Labels"]["chaoskit.packages"]).splitlines()
    assert {line.partition("==")[0] for line in frozen} >= {"chaoskit", "docker", "rich"}
    assert not any(line.startswith("torch==") for line in frozen)
    assert docker("run", "--rm", "--entrypoint", "id", image, "-un") == "chaoskit"
    assert docker("run", "--rm", "--user", "4321:4321", image, "--version").startswith("chaoskit ")


@pytest.mark.exhaustive
def test_the_trainer_trains_in_its_image_as_an_ordinary_user(build_image):
    image = build_image("torch", ROOT / "tinymodels")
    labels = json.loads(docker("image", "inspect", image))[0]["Config"]["Labels"]
    packages = docker("run", "--rm", image, "cat", labels["tinymodels.packages"])
    assert "torch==2." in packages and "chaoskit" not in packages
    assert docker("run", "--rm", image, "id", "-un") == "trainer"
    command = (
        "torchrun",
        "--nproc-per-node",
        "2",
        "-m",
        "tinymodels.train",
        "--out",
        "runs/a",
        "--epochs",
        "1",
        "--samples",
        "64",
    )
    assert "finished at step" in docker("run", "--rm", image, *command)
