"""A link that is carried from inside the network namespace of a container: what it does, and that all is as before
afterwards. The hosts are namespaces: no daemon is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.users import must_have

REPOSITORY = Path(__file__).resolve().parents[3]


def run(scenario, **quality):
    done = subprocess.run(
        [sys.executable, "-m", "tests.environments.docker.link_stage", scenario, json.dumps(quality)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
        cwd="/", capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def forbidden():
    """Why there are no network namespaces on this machine; None where there are."""
    words = [sys.executable, "-c", "from tests.environments.netns.two_hosts import Hosts; Hosts()"]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True)
    return None if done.returncode == 0 else f"no network namespaces here: {done.stderr.strip()[-200:]}"


@pytest.fixture
def stage(forbidden, request):
    must_have(request, forbidden)
    return run


@pytest.mark.parametrize("quality", [{}, {"delay": 0.005, "jitter": 0.002}], ids=["idle", "late"])
def test_connections_survive_and_the_interface_looks_the_same(stage, quality):
    found = stage("survives", **quality)
    assert found["intact"] == [True] * 4 and found["looks the same"]
    assert found["counts"]["bytes"] > 5e6 and found["counts"]["corrupted"] == 0
    assert (found["counts"]["held"] > 0) == bool(quality)


def test_a_round_trip_takes_twice_the_delay(stage):
    found = stage("slow", delay=0.05)
    assert min(found["during"]) >= 0.1 > min(found["after"])
    assert found["counts"]["held"] >= 20 * 0.05


def test_a_narrow_link_takes_its_time_each_way(stage):
    found = stage("narrow", rate=4e6)
    assert found["intact"] == [True, True] and min(found["took"]) >= 0.5


def test_tcp_notices_flipped_bits_both_ways(stage):
    found = stage("corrupted", corrupt=1)
    assert found["intact"] == [True, True] and all(found["noticed"])
    assert found["counts"]["corrupted"] >= sum(found["noticed"])


def test_each_datagram_comes_once(stage):
    came = stage("once")["came"]
    assert came == sorted(set(came)) and len(came) > 190


def test_whatever_fails_all_is_as_it_was(stage):
    assert stage("fails")["failed"] == [*"123456", "no interface has the address 10.0.0.99"]


def test_a_kernel_that_renames_no_interface_that_is_up(stage):
    found = stage("renamed_while_down")
    assert found["routes"] == ["default via 10.0.0.2", "192.0.2.0/24 via 10.0.0.2"]


def test_what_the_daemon_has_taken_out_does_not_come_back(stage):
    assert "10.0.0.1" not in str(stage("gone")["left"])


def test_a_dead_wire_is_missed_and_the_link_given_back(stage):
    assert stage("dies")["said"] == "the wire between chaos-inner and eth0 has died"
