"""Studies of a job on two virtual hosts: its crash states, and a map of its silent corruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaoskit import Job
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.environments import NetnsEnvironment
from chaoskit.protocol import targets
from chaoskit.studies.crash_states.explore import explore
from chaoskit.studies.sdc.survey import make_map
from tests.users import must_have

pytestmark = pytest.mark.slow

TRAINER = Path(__file__).resolve().parents[2] / "trainers" / "simple.py"
JOB = Job(str(TRAINER), ["--out", "{out}", "--epochs", "2"], nproc_per_node=1, nnodes=2)


@pytest.fixture
def runner(request, shared_store, hosts_here):
    must_have(request, NetnsEnvironment.storage_available())
    return Runner(Store(shared_store.root), environment="netns", launch="warm")


def test_crash_states(runner):
    """Both hosts find each state in their `{out}`, and all ranks resume from it exactly."""
    found = explore(runner, JOB, profiles=["kill"], most=2)
    assert found.judged and {one.becomes for one in found.judged} == {"exact"}, found.judged
    assert all(one.answer.accesses for one in found.judged)
    assert len(found.run.history.incarnations[0].ranks) == 2


def test_map_of_silent_corruption(runner):
    """The states of the ranks of both hosts are kept and put back."""
    found = make_map(runner, JOB, seconds=200, window=3, tolerance=1e-4, most=3, into=[targets.parameter()])
    assert len(found.results) + len(found.refused) >= 3 and found.controls > 0
    assert runner.store.read(Path(found.run))["environment"] == "netns"
