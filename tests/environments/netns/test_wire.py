"""Wires between hosts in real namespaces: what they do to what goes through them, and that they leave nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.environments.netns.wire import QUEUE, Quality
from tests.users import must_have

REPOSITORY = Path(__file__).resolve().parents[3]
STAGE = [sys.executable, "-m", "tests.environments.netns.wire_stage"]
NOBODY = 65534
#: An ordinary user, without any right but to read: Python itself may lie where only root can look.
ORDINARY = (
    ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all,+dac_read_search",
     "--ambient-caps=+dac_read_search"]
    if os.getuid() == 0
    else []
)  # fmt: skip
USERS = ["ordinary", "root"] if os.getuid() == 0 else ["ordinary"]


def run(scenario, *, user="ordinary", **quality):
    done = subprocess.run(
        [*(ORDINARY if user == "ordinary" else []), *STAGE, scenario, json.dumps(quality)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
        cwd="/", capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    if done.returncode or done.stderr:
        raise AssertionError(done.stderr.strip() or f"exit code {done.returncode}")
    found = json.loads(done.stdout)
    assert (found.pop("uid") == 0) == (user == "root")
    return found


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


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("quality", [{}, {"delay": 0.005, "jitter": 0.002}], ids=["idle", "late"])
def test_connections_survive_that_a_wire_comes_and_goes(stage, user, quality):
    found = stage("survives", user=user, **quality)
    assert found["intact"] == [True] * 4
    assert found["counts"]["bytes"] > 5e6
    assert found["counts"]["corrupted"] == 0
    assert (found["counts"]["held"] > 0) == bool(quality)


def test_a_round_trip_takes_twice_the_delay(stage):
    found = stage("slow", delay=0.05)
    assert min(found["during"]) >= 0.1
    assert min(found["after"]) < min(found["during"])
    assert found["counts"]["held"] >= 19 * 0.05  # the last one is counted after it has been sent


def test_jitter_is_around_the_delay(stage):
    during = stage("slow", delay=0.05, jitter=0.03)["during"]
    assert min(during) >= 0.04
    assert max(during) - min(during) > 0.01


def test_a_narrow_link_takes_its_time_each_way(stage):
    found = stage("narrow", rate=4e6)
    assert found["intact"] == [True, True]
    assert min(found["took"]) >= 0.5


def test_what_the_queue_has_no_room_for_is_dropped(stage):
    found = stage("flooded", rate=1e5)
    counts = found["counts"]
    assert counts["dropped"] > 0
    assert counts["packets"] + counts["dropped"] >= 1000
    assert QUEUE // 1442 - 1 <= found["came"] <= counts["packets"]


def test_frames_stay_in_order(stage):
    came = stage("ordered", delay=0.02, jitter=0.02)["came"]
    assert len(came) > 200 and came == sorted(set(came))


@pytest.mark.parametrize("user", USERS)
def test_tcp_notices_every_flipped_bit(stage, user):
    found = stage("corrupted", user=user, corrupt=1)
    assert found["intact"] == [True] * 4
    assert all(found["noticed"]) and all(found["sent again"])
    # What has no payload is struck in its headers, which IP may notice first.
    assert found["counts"]["corrupted"] >= sum(found["noticed"])


def test_udp_loses_what_was_struck_and_nothing_else(stage):
    found = stage("noisy", corrupt=20)
    for came, true, noticed in zip(found["came"], found["true"], found["noticed"], strict=True):
        assert came == true
        assert came + noticed == 2004
        assert 250 < noticed < 550


def test_addresses_are_still_found_where_all_else_is_struck(stage):
    found = stage("addressed", corrupt=100)
    assert (found["came"], found["known"]) == (0, True)
    # The search for addresses went through, and is no proof that the job's packets did.
    assert found["counts"]["packets"] == found["counts"]["corrupted"] >= 20


def test_a_wire_ends_with_its_caller_and_keeps_nothing_open(stage):
    assert stage("ends") == {"freed": True, "closed": False, "before": True, "after": False}


def test_a_dead_wire_is_missed_and_can_be_taken_out(stage):
    assert stage("dies")["said"] == "the wire between v0 and w0 has died"


def test_a_wire_bears_that_its_host_is_unplugged_and_goes(stage):
    found = stage("unplugged")
    assert found["alive"] and not found["running"]
    assert '"v0"' in found["said"]
    assert not any(link.startswith(("w0", "b0")) for link in found["left"])
    assert found["used"] < 0.5  # it waits, and asks again and again for nothing


def test_whatever_fails_all_is_as_it_was(stage):
    assert stage("fails")["failed"] == ["0", "1", "2", "3", "[Errno 19] No such device: 'nowhere'"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"delay": -0.1}, "delay"),
        ({"delay": float("nan")}, "delay"),
        ({"delay": float("inf")}, "delay"),
        ({"delay": 0.1, "jitter": 0.2}, "jitter"),
        ({"jitter": -1.0}, "jitter"),
        ({"rate": 0.0}, "rate"),
        ({"rate": float("inf")}, "rate"),
        ({"corrupt": 101.0}, "corrupt"),
        ({"corrupt": -1.0}, "corrupt"),
    ],
)
def test_bad_input_is_named(wrong, named):
    with pytest.raises(ValueError, match=f"^{named} must be"):
        Quality(**wrong)
