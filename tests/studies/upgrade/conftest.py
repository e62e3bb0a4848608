"""Two interpreters: a twin of this one with the same packages, and the one that `--upgrade-to` names."""

import os
import site
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from chaoskit.engine.runner import Runner
from chaoskit.job import Job
from chaoskit.studies.upgrade.interpreter import Interpreter
from chaoskit.studies.upgrade.upgrade import Upgrade

TRAINERS = Path(__file__).parents[2] / "trainers"


def pytest_collection_modifyitems(config, items):
    """What needs another torch runs where there is one."""
    if config.getoption("upgrade_to") is None:
        left = [item for item in items if "newer" in getattr(item, "fixturenames", ())]
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if item not in left]


def venv(place, *paths):
    """A Python of its own that finds these directories besides its packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    packages = next(place.glob("lib/python*/site-packages"))
    (packages / "others.pth").write_text("".join(f"{path}\n" for path in paths))
    return str(place / "bin" / "python")


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """A Python that has no package at all."""
    return venv(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture(scope="session")
def twin(tmp_path_factory, worker_id):
    """Another Python with the packages of this one, the same for all workers: their references are."""
    base = tmp_path_factory.getbasetemp()
    place = (base if worker_id == "master" else base.parent) / "twin"
    with FileLock(f"{place}.lock"):
        return str(place / "bin" / "python") if place.exists() else venv(place, *site.getsitepackages())


@pytest.fixture(scope="session")
def newer(pytestconfig):
    """The Python that `--upgrade-to` names."""
    path = os.path.abspath(pytestconfig.getoption("upgrade_to"))
    assert Interpreter.examine(path, option="--upgrade-to").versions["torch"] != own().versions["torch"]
    return path


def own():
    """The Python of these tests."""
    return Interpreter.examine(sys.executable, option="--old")


@pytest.fixture(scope="module")
def border(shared_store, twin):
    """Both uninterrupted runs of a job that knows which interpreter began, and a runner that crosses with options."""
    words = ["torchrun", "--nproc-per-node", "2", str(TRAINERS / "border.py"), "--out", "{out}"]
    there = Interpreter.examine(twin, option="--new")
    found = Upgrade.of(own(), there, Job.from_command(words)).measured(Runner(shared_store))
    return lambda *words: (Runner(shared_store, resume_args=list(words)), replace(found))
