"""Studies of a job in one container: they find the same as on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chaoskit import Job
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.environments.docker import storage_mount
from chaoskit.protocol import targets
from chaoskit.studies.crash_states.explore import explore
from chaoskit.studies.sdc.survey import make_map
from tests.environments.docker.conftest import docker
from tests.users import must_have

pytestmark = pytest.mark.exhaustive

TESTS = Path(__file__).resolve().parents[2]


@pytest.fixture
def runner(shared_store):
    yield Runner(Store(shared_store.root), environment="docker")
    label = "label=chaoskit.run"
    runs = docker("ps", "--all", "--format", '{{.Label "chaoskit.run"}}', "--filter", label).split()
    assert not [run for run in runs if (shared_store.root / "runs" / run.rpartition("-")[0]).exists()]


def job(python, trainers, *words, **options):
    command = [python, f"{trainers}/publisher.py", "--out", "{out}", *words]
    return Job.from_command(command, **options)


def in_container(image, *words):
    return job("python3", "/tests/trainers", *words, image=image, mounts=[f"{TESTS}:/tests:ro"])


def test_crash_states(request, runner, image):
    """A checkpoint that was not forced to the disk before it got its name: each state does to the job in a container
    what it does to the job on this machine."""
    must_have(request, storage_mount.why_not())
    bug = ("--forget", "data", "--on-doubt", "crash")
    found = explore(runner, in_container(image, *bug), profiles=["ext4"], most=4)
    assert found.outcome == "fail"
    assert {(story.becomes, frozenset(story.codes)) for story in found.stories()} == {
        ("crashed", frozenset({"torn-checkpoint", "checkpoint-not-durable"}))
    }
    assert all(each.answer.accesses for each in found.judged)
    local = job(sys.executable, TESTS / "trainers", *bug)
    here = explore(Runner(runner.store, launch="warm"), local, profiles=["ext4"], most=4)
    assert outcomes(found) == outcomes(here)


def outcomes(found):
    """What became of each state that was judged."""
    return {one.state.digest: (one.becomes, one.answer.base, one.answer.codes) for one in found.judged}


def test_map_of_silent_corruption(runner, image):
    """The states of the ranks are kept and put back in the container."""
    one = in_container(image)
    found = make_map(runner, one, seconds=200, window=3, tolerance=1e-4, most=3, into=[targets.parameter()])
    assert len(found.results) + len(found.refused) >= 3 and found.controls > 0
    assert runner.store.read(Path(found.run))["environment"] == "docker"
