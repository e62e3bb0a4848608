"""What a kernel really counts when packets are dropped, late or damaged between two hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.users import REPOSITORY, must_have

STAGE = [sys.executable, "-m", "tests.environments.machine.network_felt_stage"]


def run(scenario, *options):
    done = subprocess.run(
        [*STAGE, scenario, *options],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
        cwd="/", capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    if done.returncode or done.stderr:
        raise AssertionError(done.stderr.strip() or f"exit code {done.returncode}")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def forbidden():
    """Why there are no hosts on this machine; None where there are."""
    try:
        run("nothing")
    except (AssertionError, OSError) as error:
        return f"no network namespaces here: {str(error).splitlines()[-1]}"
    return None


@pytest.fixture
def stage(forbidden, request):
    must_have(request, forbidden)
    return run


@pytest.mark.parametrize("version", ["4", "6"])
@pytest.mark.parametrize("where", ["sender", "receiver"])
def test_what_is_dropped_is_tried_in_vain_and_not_before(stage, version, where):
    """Chaos Mesh drops packets at the sender: there the kernel sends nothing again, because nothing was sent."""
    found = stage("drop", version, where)
    assert found["carried"] and found["quiet"] == 0
    assert found["pending"] == 1000 and found["left"] == [0]
    assert found["back"] == 0, "nothing was dropped on the way back"
    assert where == "sender" or min(found["again"], found["segments"]) >= 2


@pytest.mark.parametrize("version", ["4", "6"])
def test_on_a_good_link_nothing_is_tried_in_vain(stage, version):
    found = stage("free", version)
    assert found["carried"] and found["unanswered"] == 0 and (version == "6" or found["sent"] > 20 << 20)


def test_lost_packets_are_sent_again(stage):
    found = stage("lossy", "10")
    assert found["carried"] and found["again"] == found["segments"]
    assert found["again"] / found["out"] > 0.02


def test_a_slow_link_shows_in_round_trips(stage):
    found = stage("late", "0.05")
    assert found["before"] < 0.05 and found["slow"] >= 0.1 and found["smoothed"] >= 0.05
    assert found["stopped"] == []


def test_damage_shows_in_checksums(stage):
    found = stage("damaged")
    assert found["carried"] and found["wrong"] > 0
