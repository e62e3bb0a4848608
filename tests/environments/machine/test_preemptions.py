"""Nodes that are given notice and taken away, for real, on virtual hosts and on `local`.

No torch: the command of each node is a script that writes down what it learns of the notice.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.capabilities import CanOwnAddress, CanPreempt, PreemptionNotice
from chaoskit.environments.environment import Ended
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.local.environment import LocalEnvironment
from chaoskit.environments.netns.environment import NetnsEnvironment
from chaoskit.nodes import Nodes

#: A rank 0 or 1, by its node. It writes a line for each signal and each notice, and leaves with 143 on SIGTERM.
JOB = """
import json, os, signal, sys, time, urllib.error, urllib.request
node = os.environ.get("CHAOSKIT_NODE", "node0")
rank, launch = int(node[-1]) % 2, int(os.environ["CHAOSKIT_LAUNCH"])
def write(word):
    with open("told", "a") as out:
        out.write(f"{node} {launch} {word}\\n")
def usr1(*_): write("USR1")
def term(*_):
    write("TERM")
    if "stubborn" not in sys.argv: os._exit(143)
signal.signal(signal.SIGUSR1, usr1)
if "child" in sys.argv and os.fork() == 0:
    if os.fork() == 0:
        node += "'s grandchild"
    write("forked")
    while True: time.sleep(1)
signal.signal(signal.SIGTERM, term)
with open("/proc/self/stat") as file:
    start = int(file.read().rpartition(")")[2].split()[19])
me = {"e": "process.start", "role": "rank", "rank": rank, "pid": os.getpid(), "start": start, "launch": launch}
with open(f"{os.environ['CHAOSKIT_RUN']}/events/{node}-{launch}.jsonl", "w") as events:
    events.write(json.dumps({**me, "restart": 0, "t": 1.0, "node": node}) + "\\n")
write("up")
def ask(url, headers, method="GET"):
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers, method=method), timeout=10)
        return answer.read().decode()
    except urllib.error.URLError as error:
        return ""
base, seen = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254"), ""
while True:
    time.sleep(0.02)
    if "aws" in sys.argv or "azure" in sys.argv:
        if "aws" in sys.argv:
            ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
            token = "" if "v1" in sys.argv else ask(f"{base}/latest/api/token", ttl, "PUT")
            given = {"X-aws-ec2-metadata-token": token} if token else {}
            said = ask(f"{base}/latest/meta-data/spot/instance-action", given)
        else:
            url = f"{base}/metadata/scheduledevents?api-version=2020-07-01"
            said = ask(url, {"Metadata": "true"})
            found = json.loads(said)["Events"]
            said = found[0]["EventStatus"] if found else ""
            if said == "Scheduled":
                body = json.dumps({"StartRequests": [{"EventId": found[0]["EventId"]}]}).encode()
                urllib.request.urlopen(urllib.request.Request(url, body, {"Metadata": "true"}, method="POST"))
        if bool(said) != bool(seen):
            write("notice" if said else "gone")
        seen = said
"""
LIMIT = 60.0


@pytest.fixture
def begin(place, hosts_here, request):
    """An environment in which the job runs, with its node or its two nodes, and the words that its ranks get."""
    made = []

    def enter(kind, *words, **given):
        spec = replace(place, gated=False, **given)
        if kind is NetnsEnvironment:
            spec = replace(spec, nodes=Nodes(2, 2))
        env = kind(spec, ColdLauncher(grace=0.3)).__enter__()
        made.append(env)
        env.command = [sys.executable, "-I", "-S", "-c", JOB, *words]
        env.launch(0, env.command)
        nodes = env.preemptible()
        turn(env, lambda: all(f"{node} 0 up" in told(place) for node in nodes))
        return env

    yield enter
    for each in made:
        each.__exit__(None, None, None)


def told(place):
    path = Path(place.cwd, "told")
    return path.read_text().splitlines() if path.exists() else []


def turn(env, until):
    """Deal with what happens until that is so; how the launch has ended, if it has."""
    deadline = time.monotonic() + LIMIT
    end = None
    while not until():
        assert time.monotonic() < deadline
        for event in env.wait(0.02):
            end = event if isinstance(event, Ended) else end
    return end


def over(env, node):
    """What became of the notice to that node."""
    found = []
    end = turn(env, lambda: (found.append(env.preempted(node)), found[-1] is not None)[1])
    return found[-1], end


def test_what_each_can():
    assert issubclass(NetnsEnvironment, CanPreempt) and issubclass(NetnsEnvironment, CanOwnAddress)
    assert issubclass(LocalEnvironment, CanPreempt) and not issubclass(LocalEnvironment, CanOwnAddress)


def test_a_host_is_told_by_its_cloud_and_taken_away_at_the_end(begin, place):
    env = begin(NetnsEnvironment, "aws", metadata="aws")
    env.preempt("node1", PreemptionNotice(seconds=1.5, cloud="aws"))
    found, _ = over(env, "node1")
    assert found["ended"] is None and found["killed"] >= 1.5
    (receipt,) = found["received"]
    assert (receipt["rank"], receipt["path"]) == (1, "/latest/meta-data/spot/instance-action")
    assert 0 < receipt["after"] < 1.5
    assert found["asked"] > 1 and found["refused"] == 0
    assert "node1 0 notice" in told(place) and "node0 0 notice" not in told(place)
    assert env.is_lost("node1")
    turn(env, lambda: env.run.has_ended)
    env.launch(1, env.command)
    turn(env, lambda: {"node0 1 up", "node2 1 up"} <= {*told(place)})
    assert env.preemptible() == ("node0", "node2")
    assert env.run.metadata.board("node2").notice is None


def test_who_asks_in_the_wrong_way_is_refused_and_learns_nothing(begin, place):
    env = begin(NetnsEnvironment, "aws", "v1", metadata="aws")
    env.preempt("node1", PreemptionNotice(seconds=1.0, cloud="aws"))
    found, _ = over(env, "node1")
    assert found["received"] == [] and found["asked"] == found["refused"] > 0


def test_a_false_notice_is_withdrawn_and_nothing_follows(begin, place):
    env = begin(NetnsEnvironment, "aws", metadata="aws")
    env.preempt("node0", PreemptionNotice(seconds=2.0, cloud="aws", kills=False, withdrawn=1.0))
    found, end = over(env, "node0")
    assert (found["killed"], found["ended"], end) == (None, None, None)
    assert 1.0 <= found["withdrawn"] < 2.0
    turn(env, lambda: "node0 0 gone" in told(place))
    assert env.command_on("node0") is not None


def test_a_notice_is_withdrawn_before_its_end(begin, place):
    env = begin(NetnsEnvironment, "aws", metadata="aws")
    env.preempt("node0", PreemptionNotice(seconds=500.0, cloud="aws", kills=False, withdrawn=0.7))
    turn(env, lambda: "node0 0 gone" in told(place))
    assert env.preempted("node0") is None


def test_azure_need_not_wait_for_who_is_ready(begin, place):
    env = begin(NetnsEnvironment, "azure", metadata="azure")
    env.preempt("node1", PreemptionNotice(seconds=50.0, cloud="azure"))
    found, _ = over(env, "node1")
    assert found["killed"] < 45


def test_a_launch_that_ends_gives_the_node_back(begin, place):
    env = begin(NetnsEnvironment)
    env.preempt("node0", PreemptionNotice(seconds=50.0, signal=15, to_agent=True))
    found, end = over(env, "node0")
    assert end is not None and end.code == 143
    assert found["killed"] is None and found["ended"] < 45
    assert [each["after"] < 45 for each in found["received"]] == [True]
    assert "node0 0 TERM" in told(place)
    env.launch(1, env.command)
    turn(env, lambda: {"node1 1 up", "node2 1 up"} <= {*told(place)})


@pytest.mark.parametrize("kind", [LocalEnvironment, NetnsEnvironment])
def test_signals_that_come_again(begin, place, kind):
    env = begin(kind)
    env.preempt("node0", PreemptionNotice(seconds=1.2, signal=10, times=3, rank=0, kills=False))
    found, end = over(env, "node0")
    assert (found["times"], end) == (3, None)
    assert [*told(place)].count("node0 0 USR1") == 3
    assert not any("node1 0 USR1" in line for line in told(place))


def test_processes_that_the_ranks_have_started(begin, place):
    env = begin(LocalEnvironment, "child")
    turn(env, lambda: sum("forked" in line for line in told(place)) == 2)
    env.preempt("node0", PreemptionNotice(seconds=0.8, signal=10, to_children=True, kills=False))
    found, _ = over(env, "node0")
    assert len(found["received"]) == 3
    assert [line for line in told(place) if "USR1" in line].count("node0's grandchild 0 USR1") == 1
    assert sum("USR1" in line for line in told(place)) == 3


def test_the_shutdown_comes_before_the_end(begin, place):
    env = begin(LocalEnvironment, "stubborn", metadata="gcp")
    env.preempt("node0", PreemptionNotice(seconds=1.5, cloud="gcp", shutdown=0.5))
    found, end = over(env, "node0")
    assert 1.0 <= found["shutdown"] < 1.5 <= found["killed"]
    assert "node0 0 TERM" in told(place)
    turn(env, lambda: env.run.has_ended)
    assert end is None or end.code != 0


def test_a_file_is_there_until_the_end(begin, place):
    env = begin(LocalEnvironment)
    file = place.cwd / "emergency"
    env.preempt("node0", PreemptionNotice(seconds=0.5, file=str(file), kills=False))
    assert file.exists()
    found, _ = over(env, "node0")
    assert not file.exists() and found["killed"] is None


def test_a_file_is_gone_with_the_run(begin, place):
    env = begin(LocalEnvironment)
    file = place.cwd / "emergency"
    env.preempt("node0", PreemptionNotice(seconds=500, file=str(file)))
    env.__exit__(None, None, None)
    assert not file.exists()


def test_nobody_to_tell(begin, place):
    env = begin(NetnsEnvironment)
    for node, notice in (
        ("node7", PreemptionNotice(seconds=1, signal=10)),
        ("node0", PreemptionNotice(seconds=1, signal=10, rank=1)),
        ("node0", PreemptionNotice(seconds=1, cloud="aws")),
    ):
        with pytest.raises(LookupError):
            env.preempt(node, notice)
