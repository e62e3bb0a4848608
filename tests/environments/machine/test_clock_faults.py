"""The clocks of nodes of this machine: all processes of the job there have it, also those that come later."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from chaoskit.capabilities import CanSkewClock
from chaoskit.environments import offers
from chaoskit.environments.local.environment import LocalEnvironment
from chaoskit.environments.machine import clock_faults, process_clocks
from chaoskit.environments.netns.environment import NetnsEnvironment
from chaoskit.errors import ChaoskitError
from chaoskit.nodes import Nodes
from tests.users import must_have

pytestmark = pytest.mark.launches

#: Stands in for a rank and its launcher. It records how its clock moves, and starts another program of itself when it
#: finds the file `again`.
RANK = """
import json, os, sys, time
node, run = os.environ.get("CHAOSKIT_NODE", ""), os.environ["CHAOSKIT_RUN"]
def ahead():
    return time.time() - time.monotonic()
rank = int(node[4:] or 0) if node else 0
name = f"{run}/events/rank-0-0-{rank}-{node}-{os.getpid()}-{time.monotonic()}.jsonl"
with open(name, "w") as file:
    def say(kind, **data):
        file.write(json.dumps({"i": 0, "t": time.monotonic(), "e": kind, **data}, separators=(",", ":")) + "\\n")
        file.flush()
    last = ahead()
    say("process.start", role="rank", rank=rank, pid=os.getpid(), start=0, launch=0, restart=0, ahead=last,
        **({"node": node} if node else {}))
    while True:
        time.sleep(0.01)
        if abs(ahead() - last) > 0.1:
            last = ahead()
            say("wall", ahead=last)
        if os.path.exists(f"{run}/again-{node}"):
            os.unlink(f"{run}/again-{node}")
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", sys.argv[1], sys.argv[1]])
"""
COMMAND = [sys.executable, "-I", "-S", "-c", RANK, RANK]


@pytest.fixture
def settable(request):
    must_have(request, process_clocks.why_not())


@pytest.fixture
def hosts(place, hosts_here, settable):
    with NetnsEnvironment(replace(place, nodes=Nodes(2, 2))) as env:
        yield env


@pytest.fixture
def up(place, until):
    """Launch, and wait until so many ranks have begun their records."""

    def launch(env, count):
        env.launch(0, COMMAND)
        records = place.run_dir / "events"
        until(lambda: len([path for path in records.glob("rank-*") if path.stat().st_size]) == count)

    return launch


def rounded(env, skew):
    found = env.clock_skewed(skew)
    return {name: {rank: round(off) for rank, off in found[name].items()} for name in ("ranks", "others")}


@pytest.mark.parametrize("name", ["local", "netns"])
def test_they_are_offered(name, settable):
    assert offers(name, CanSkewClock)
    assert LocalEnvironment.lacks(CanSkewClock, None) is None


def test_why_they_cannot_be_had_is_told(monkeypatch):
    monkeypatch.setattr(process_clocks, "why_not", lambda: "the kernel does not let us")
    assert LocalEnvironment.lacks(CanSkewClock, None) == "the kernel does not let us"


def test_one_host_jumps_and_the_other_does_not(hosts, up, until):
    up(hosts, 2)
    skew = hosts.skew_clock(-1, by=-600.0)
    until(lambda: rounded(hosts, skew) == {"ranks": {1: -600}, "others": {0: 0}})
    with pytest.raises(LookupError, match="the clock of node1 is off already"):
        hosts.skew_clock(None, by=5.0)
    other = hosts.skew_clock(0, by=9.0)
    until(lambda: rounded(hosts, other) == {"ranks": {0: 9}, "others": {1: 0}})
    hosts.set_clock_right(other)
    hosts.set_clock_right(skew)
    hosts.set_clock_right(99)
    again = hosts.skew_clock(None, by=60.0)
    until(lambda: rounded(hosts, again) == {"ranks": {0: 60, 1: 60}, "others": {}})
    with pytest.raises(LookupError, match="node 2 is not up; up are node0, node1"):
        hosts.skew_clock(2, by=5.0)


def test_a_program_that_takes_the_place_of_another_has_it_too(hosts, up, until, place):
    up(hosts, 2)
    skew = hosts.skew_clock(1, by=-600.0)
    until(lambda: rounded(hosts, skew)["ranks"] == {1: -600})
    (place.run_dir / "again-node1").touch()
    records = place.run_dir / "events"
    until(lambda: len(list(records.glob("rank-0-0-1-*"))) == 2)
    newest = max(records.glob("rank-0-0-1-*"), key=lambda path: path.stat().st_mtime)
    until(lambda: newest.read_text())
    right = json.loads(newest.read_text().splitlines()[0])["ahead"]

    def jumped():
        hosts.keep_clock(skew)
        last = json.loads(newest.read_text().splitlines()[-1])["ahead"]
        return round(last - right) == -600

    until(jumped)


def test_here_the_only_node_is_all(place, up, until, settable):
    with LocalEnvironment(place) as env:
        with pytest.raises(LookupError, match="nothing of the job runs on node0"):
            env.skew_clock(0, by=5.0)
        up(env, 1)
        skew = env.skew_clock(None, by=7.0)
        until(lambda: rounded(env, skew) == {"ranks": {0: 7}, "others": {}})
        env.set_clock_right(skew)
        with pytest.raises(LookupError, match="there is no node 1"):
            env.skew_clock(1, by=5.0)


@pytest.mark.parametrize("failure", [{1: "Operation not permitted"}, ChaoskitError("Operation not permitted")])
def test_a_clock_that_cannot_be_set_is_no_target(place, up, settable, monkeypatch, failure):
    set_ = []

    def fails(processes, by):
        set_.append(by)
        if isinstance(failure, Exception) and by:
            raise failure
        return {one.pid: "Operation not permitted" for one in processes} if by else {}

    with LocalEnvironment(place) as env:
        up(env, 1)
        monkeypatch.setattr(clock_faults.process_clocks, "set_wall_clocks", fails)
        with pytest.raises(LookupError, match="cannot be set: Operation not permitted"):
            env.skew_clock(0, by=5.0)
        assert set_[-1] == 0.0
        monkeypatch.undo()
        env.set_clock_right(env.skew_clock(0, by=5.0))
