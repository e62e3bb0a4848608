"""Jobs on virtual hosts: what each node is given, how nodes are lost, come back, join and leave, and what is left.

No torch: the agent of every node is a stub that writes down what it was given, and ends when a file tells it to.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import chaoskit
from chaoskit import capabilities
from chaoskit.environments import ENVIRONMENTS, environment
from chaoskit.environments.environment import Ended, ExtraEvent
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.job_environment import RENDEZVOUS_PORT as PORT
from chaoskit.environments.machine import processes, scratch
from chaoskit.environments.netns.environment import NetnsEnvironment
from chaoskit.errors import TooFewNodes, UsageError
from chaoskit.nodes import NodeLossPolicy, Nodes
from chaoskit.protocol.fingerprint import LENT, library
from tests.users import as_root_only, repeat

#: Writes `node0-0` (its node, the number of the launch, how often it was started there), waits for `go`.
STUB = """
import json, os, signal, socket, subprocess, sys, time
name = os.environ["CHAOSKIT_NODE"] + "-" + os.environ["CHAOSKIT_LAUNCH"]
while os.path.exists(name):
    name += "+"
def end(code):
    os.killpg(child, signal.SIGKILL)
    os._exit(code)
child = subprocess.Popen(["setsid", "sh", "-c", "sleep 1000 & echo $! > " + name + ".child; wait"]).pid
signal.signal(signal.SIGTERM, lambda *_: end(3))
told = {
    "env": dict(os.environ), "host": socket.gethostname(), "found": os.listdir(os.environ["TMPDIR"]),
    "address": socket.gethostbyname(socket.gethostname()), "cwd": os.getcwd(), "pid": os.getpid(), "children": [child],
}
while not os.path.exists(name + ".child") or not open(name + ".child").read():
    time.sleep(0.005)
told["children"].append(int(open(name + ".child").read()))
open(os.path.join(os.environ["TMPDIR"], "left"), "w").close()
with open("/proc/self/stat") as file:
    start = int(file.read().rpartition(")")[2].split()[19])
node, launch = os.environ["CHAOSKIT_NODE"], int(os.environ["CHAOSKIT_LAUNCH"])
rank = {"e": "process.start", "role": "rank", "rank": int(node[4:]), "pid": os.getpid(), "start": start}
rank |= {"launch": launch, "restart": 0, "t": 1.0, "node": node}
with open(os.environ["CHAOSKIT_RUN"] + "/events/" + name + ".jsonl", "w") as events:
    events.write(json.dumps(rank) + "\\n")
with open("part-" + name, "w") as out:
    json.dump(told, out)
os.rename("part-" + name, name)
while not os.path.exists("go"):
    time.sleep(0.005)
print("done", flush=True)
end(0)
"""
AGENT = [sys.executable, "-I", "-S", "-c", STUB]


@pytest.fixture
def begin(place, hosts_here):
    """An environment for so many nodes, entered; what was told of nodes is in its `heard`."""
    made = []

    def make(nodes="2", *, conf="", entered=True, **given):
        least, _, most = nodes.partition(":")
        policy = NodeLossPolicy(**{k: given.pop(k) for k in ("lost", "after", "restarts") if k in given})
        asked = Nodes(int(least), int(most or least), conf, policy)
        made.append(NetnsEnvironment(replace(place, gated=False, nodes=asked, **given), ColdLauncher(grace=0.3)))
        made[-1].heard = []
        return made[-1].__enter__() if entered else made[-1]

    yield make
    for each in made:
        each.__exit__(None, None, None)


def turn(env, condition=None, *, timeout=20.0):
    """Deal with what happens until the condition holds, or the launch has ended; how it ended."""
    deadline = time.monotonic() + timeout
    while condition is None or not condition():
        assert time.monotonic() < deadline, f"it never came to be: {env.heard}"
        for happening in env.wait(0.02):
            if isinstance(happening, Ended):
                return happening
            assert isinstance(happening, ExtraEvent)
            env.heard.append((happening.kind, happening.data["node"], happening.data.get("cause")))
    return None


@pytest.fixture
def told(place):
    """What a stub has written down, None while it has not."""

    def read(name):
        path = place.cwd / name
        return json.loads(path.read_text()) if path.exists() else None

    return read


@pytest.fixture
def up(told):
    """Launch, and wait until the stubs of these names are up."""

    def start(env, *names, launch=0):
        assert env.launch(launch, AGENT) == "cold"
        turn(env, lambda: all(told(name) for name in names))

    return start


@pytest.fixture
def go(place):
    return (place.cwd / "go").touch


def test_the_registry():
    assert environment("netns") is ENVIRONMENTS["netns"] is NetnsEnvironment
    lacks = {
        name for name in capabilities.REMEDIES if not issubclass(NetnsEnvironment, getattr(capabilities, name))
    }
    assert lacks == {"CanDrain", "CanEvict", "CanLimitTime", "CanShowClaims", "CanSuspend"}


def test_every_node_is_told_where_the_others_are(begin, place, told, up, go, monkeypatch):
    monkeypatch.setenv("PET_NNODES", "7")
    monkeypatch.setenv("CHAOSKIT_NODE", "stale")
    env = begin("2", conf="timeout=5")
    assert env.nodes() == ("node0", "node1")
    up(env, "node0-0", "node1-0")
    for number in range(2):
        node = f"node{number}"
        found = told(f"{node}-0")
        shown = {key: value for key, value in found["env"].items() if key.startswith(("PET_", "CHAOSKIT_", "TMP"))}
        assert shown == {
            "PET_NNODES": "2",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"node0:{PORT}",
            "PET_RDZV_ID": place.run_id,
            "PET_RDZV_CONF": "timeout=5",
            "PET_LOG_DIR": str(place.run_dir / "logs" / "ranks" / "launch-0" / node),
            "PET_TEE": "3",
            "CHAOSKIT_NODE": node,
            "CHAOSKIT_RUN": str(place.run_dir),
            "CHAOSKIT_ID": place.run_id,
            "CHAOSKIT_LAUNCH": "0",
            "CHAOSKIT_OUT": str(place.out),
            LENT: library(),
            "TMPDIR": str(scratch.path(place.run_id) / node),
        }
        assert (found["host"], found["address"], found["cwd"]) == (node, f"10.77.0.{number + 1}", str(place.cwd))
        assert found["found"] == []
        assert env.ranks_of(node) == (number,)
        assert Path(found["env"]["TMPDIR"]).stat().st_mode & 0o777 == 0o700
    assert [process.pid for process in env.launcher_processes()] == [told(f"node{n}-0")["pid"] for n in range(2)]
    go()
    assert turn(env) == Ended(0, 0)
    assert env.heard[:2] == [("node.start", "node0", None), ("node.start", "node1", None)]
    assert sorted(env.heard[2:]) == [("node.end", "node0", "itself"), ("node.end", "node1", "itself")]
    with pytest.raises(LookupError):
        env.launcher_processes()
    assert env.ranks_of("node1") == ()
    assert (place.run_dir / "logs" / "launch-0.log").read_text() == "done\ndone\n"
    # Another launch of the same nodes finds what the first has left there.
    up(env, "node0-1", "node1-1", launch=1)
    assert told("node1-1")["found"] == ["left"]


def test_what_the_user_sets_for_torchrun_stays(begin, told, up):
    own = {"PET_NNODES": "1:9", "PET_RDZV_ENDPOINT": "node1:1234", "PET_RDZV_ID": "mine", "PET_LOG_DIR": "/logs"}
    env = begin("1:2", env={**own, "PET_RDZV_CONF": "a=b", "TMPDIR": "/var/tmp"})
    up(env, "node0-0", "node1-0")
    for node in env.nodes():
        found = told(f"{node}-0")["env"]
        assert {**found, **own, "PET_RDZV_CONF": "a=b", "TMPDIR": "/var/tmp"} == found
        assert (found["PET_RDZV_BACKEND"], found["CHAOSKIT_ELASTIC"]) == ("c10d", "1")


# Nodes are lost.


def test_a_lost_node_leaves_nothing_and_returns_as_if_it_had_been_reinstalled(begin, place, told, up, until):
    env = begin("2", after=0.3)
    up(env, "node0-0", "node1-0")
    theirs, kept = told("node1-0"), told("node0-0")["pid"]
    assert not env.is_lost("node1") and not env.is_lost("node0")
    since = time.monotonic()
    lost = env.lose_node("node1")
    assert set(lost["ended"]) == {theirs["pid"], *theirs["children"]}
    assert processes.marked(place.run_id, node="node1") == []
    assert env.is_lost("node1") and not env.reaches("node0", "node1")
    assert processes.identify(kept) is not None
    for act in (env.lose_node, env.freeze_node, env.remove_node):
        with pytest.raises(LookupError, match="node1"):
            act("node1")
    assert (env.nodes(), env.ranks_of("node1")) == (("node0",), ())
    end = turn(env)
    assert 0.3 <= time.monotonic() - since < 5
    assert (end.launch, end.code) == (0, -signal.SIGKILL)
    assert env.heard[2:] == [("node.end", "node1", "lost"), ("node.end", "node0", "supervisor")]
    assert told("node1-0+") is None
    up(env, "node0-1", "node1-1", launch=1)
    assert env.nodes() == ("node0", "node1")
    again = told("node1-1")
    assert (again["found"], again["host"], told("node0-1")["found"]) == ([], "node1", ["left"])
    assert again["env"]["PET_RDZV_ENDPOINT"] == f"node0:{PORT}"
    assert env.reaches("node0", "node1") and env.reaches("node1", "node0")
    assert env.is_lost("node1"), "of one that is back it was asked while it was away"


@pytest.mark.parametrize("how", ["spare", "replaced"])
def test_a_spare_has_another_name_and_the_others_meet_elsewhere(begin, told, up, how):
    env = begin("2", lost="spare" if how == "spare" else "gone", after=0 if how == "spare" else 9)
    up(env, "node0-0", "node1-0")
    env.lose_node("node0", replaced=how == "replaced")
    turn(env)
    up(env, "node1-1", "node2-1", launch=1)
    assert env.nodes() == ("node1", "node2")
    for node in env.nodes():
        assert told(f"{node}-1")["env"]["PET_RDZV_ENDPOINT"] == f"node1:{PORT}"
    assert told("node2-1")["address"] == "10.77.0.3"
    assert env.resolves("node1", "node2") and env.reaches("node1", "node2")


def test_without_a_node_that_is_gone_a_job_of_two_cannot_be_launched(begin, up):
    env = begin("2", lost="gone")
    up(env, "node0-0", "node1-0")
    env.lose_node("node1")
    assert turn(env).code == -signal.SIGKILL
    with pytest.raises(TooFewNodes, match="needs 2 nodes, and 1 are left"):
        env.launch(1, AGENT)
    assert env.wait(0.01) == []


def test_an_elastic_job_goes_on_without_a_node_that_is_gone(begin, told, up, go):
    env = begin("1:2", lost="gone")
    up(env, "node0-0", "node1-0")
    env.lose_node("node0")
    assert turn(env, lambda: len(env.heard) == 3) is None
    assert [process.pid for process in env.launcher_processes()] == [told("node1-0")["pid"]]
    go()
    assert turn(env) == Ended(0, 0)
    up(env, "node1-1", launch=1)
    assert told("node0-1") is None
    assert told("node1-1")["env"]["PET_RDZV_ENDPOINT"] == f"node1:{PORT}"


def test_a_node_alone_is_started_again_while_the_others_stay(begin, told, up, go):
    """For a range of nodes, or where the supervisor says so."""
    env = begin("2", restarts="node", after=0.2)
    up(env, "node0-0", "node1-0")
    stays = told("node0-0")["pid"]
    env.lose_node("node1")
    assert turn(env, lambda: told("node1-0+")) is None
    again = told("node1-0+")
    assert (again["found"], again["env"]["PET_RDZV_ENDPOINT"]) == ([], f"node0:{PORT}")
    assert [process.pid for process in env.launcher_processes()] == [stays, again["pid"]]
    assert env.heard[2:] == [("node.end", "node1", "lost"), ("node.start", "node1", None)]
    assert env.ranks_of("node1") == (1,)
    go()
    assert turn(env) == Ended(0, 0)


def test_a_whole_elastic_job_is_started_again_where_the_supervisor_says_so(begin, told, up):
    env = begin("1:2", restarts="job")
    up(env, "node0-0", "node1-0")
    env.lose_node("node1")
    assert turn(env).code == -signal.SIGKILL
    assert env.heard[-1] == ("node.end", "node0", "supervisor")


def test_a_job_that_has_lost_all_its_nodes_is_launched_again_once_it_has_them(begin, up):
    env = begin("2", after=0.8)
    up(env, "node0-0", "node1-0")
    for node in ("node1", "node0"):
        since = time.monotonic()
        env.lose_node(node)
        assert env.is_lost(node)
    assert turn(env).code == -signal.SIGKILL
    up(env, "node0-1", "node1-1", launch=1)
    assert time.monotonic() - since >= 0.8
    assert [node for kind, node, _ in env.heard if kind == "node.start"] == ["node0", "node1"] * 2


# Nodes come and go.


def test_nodes_join_up_to_the_most(begin, told, up, go):
    env = begin("1:3", lost="gone")
    up(env, "node0-0", "node1-0", "node2-0")
    with pytest.raises(LookupError, match="runs on 3 nodes, as many as it may"):
        env.add_node()
    env.lose_node("node1")
    assert env.add_node() == "node1"
    turn(env, lambda: told("node1-0+"))
    assert told("node1-0+")["found"] == []
    assert sorted(env.nodes()) == ["node0", "node1", "node2"]
    with pytest.raises(LookupError):
        env.add_node()
    go()
    assert turn(env) == Ended(0, 0)
    with pytest.raises(LookupError, match="no launch"):
        env.add_node()


def test_a_node_that_is_asked_to_leave_leaves_and_does_not_come_back(begin, place, told, up, go):
    env = begin("1:2")
    up(env, "node0-0", "node1-0")
    env.remove_node("node1")
    assert env.nodes() == ("node0",)
    turn(env, lambda: ("node.end", "node1", "removed") in env.heard)
    assert processes.marked(place.run_id, node="node1") == []
    assert turn(env, lambda: len(env.launcher_processes()) == 1) is None
    assert env.add_node() == "node1"
    turn(env, lambda: told("node1-0+"))
    env.remove_node("node1")
    turn(env, lambda: env.heard.count(("node.end", "node1", "removed")) == 2)
    go()
    assert turn(env) == Ended(0, 0)
    up(env, "node0-1", launch=1)
    assert told("node1-1") is None and told("node0-1")


def test_who_joins_does_not_take_the_place_of_a_node_that_is_still_leaving(begin, place, told, up, until):
    env = begin("1:2")
    up(env, "node0-0", "node1-0")
    env.freeze_node("node1")  # it will take its time
    until(lambda: env.is_frozen("node1"))
    env.remove_node("node1")
    assert env.add_node() == "node2"
    turn(env, lambda: told("node2-0"))
    assert len(env.launcher_processes()) == 3
    env.thaw_node("node1")
    turn(env, lambda: ("node.end", "node1", "removed") in env.heard)
    assert env.nodes() == ("node0", "node2")


def test_every_process_of_a_node_is_frozen_and_no_other(begin, told, up, until):
    env = begin("2")
    up(env, "node0-0", "node1-0")
    theirs = told("node1-0")
    assert not env.is_frozen("node1")
    assert set(env.freeze_node("node1")["pids"]) == {theirs["pid"], *theirs["children"]}
    until(lambda: env.is_frozen("node1"))
    state = {pid: processes.state(processes.identify(pid)) for pid in (theirs["pid"], *theirs["children"])}
    assert set(state.values()) == {"stopped"}
    assert not env.is_frozen("node0")
    assert processes.state(processes.identify(told("node0-0")["pid"])) == "running"
    assert env.reaches("node0", "node1"), "its kernel lives"
    env.thaw_node("node1")
    until(lambda: all(processes.state(processes.identify(pid)) == "running" for pid in state))
    assert not env.is_frozen("node1")


# The network.


def test_the_network_is_cut_and_names_are_hidden_by_name(begin):
    env = begin("2")
    cut = env.cut([("node0", "node1")])
    assert (env.reaches("node0", "node1"), env.reaches("node1", "node0")) == (False, True)
    assert env.lost(cut) == {"node0>node1": 0}
    env.mend(cut)
    env.mend(cut)
    assert env.reaches("node0", "node1")
    env.hide_names(["node0"])
    asked = [("node0", "node1"), ("node0", "node0"), ("node1", "node0"), ("node0", "localhost")]
    assert [env.resolves(*each) for each in asked] == [False, True, True, True]
    env.show_names(["node0"])
    assert env.resolves("node0", "node1")


def test_a_name_stays_hidden_from_a_node_that_comes_back(begin, up):
    env = begin("2")
    up(env, "node0-0", "node1-0")
    env.hide_names(["node1"])
    env.lose_node("node1")
    turn(env)
    up(env, "node0-1", "node1-1", launch=1)
    assert not env.resolves("node1", "node0")
    env.show_names(["node1"])
    assert env.resolves("node1", "node0")


# The end.


def test_stop_ends_all_nodes_and_nobody_comes_back(begin, told, up):
    env = begin("2", after=0.1, restarts="node")
    up(env, "node0-0", "node1-0")
    env.lose_node("node1")
    found = told("node0-0")
    assert {each["pid"] for each in env.stop()} == {found["pid"], *found["children"]}
    time.sleep(0.15)
    assert turn(env) == Ended(0, -signal.SIGKILL)
    assert env.heard[2:] == [("node.end", "node1", "lost"), ("node.end", "node0", "stop")]


def test_nothing_is_left(begin, place, up, told):
    env = begin("2")
    up(env, "node0-0", "node1-0")
    env.cut([("node0", "node1")])
    env.freeze_node("node1")
    holder = env.hosts.client._process.pid
    env.__exit__(None, None, None)
    assert processes.marked(place.run_id) == []
    assert not Path(f"/proc/{holder}").exists() and not scratch.path(place.run_id).exists()


HARNESS = """
import json, signal, sys
from pathlib import Path
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.netns.environment import NetnsEnvironment
from chaoskit.nodes import Nodes
run = Path(sys.argv[1])
place = RunSpec(run_dir=run, out=run / "out", cwd=run.parent, run_id=sys.argv[2], nodes=Nodes(2, 2))
with NetnsEnvironment(place) as env:
    env.launch(0, json.loads(sys.argv[3]))
    print(env.hosts.client._process.pid, flush=True)
    signal.pause()
"""


def test_nothing_is_left_when_the_harness_is_killed(place, told, until, hosts_here):
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(place.run_dir), place.run_id, json.dumps(AGENT)],
        env={**os.environ, "PYTHONPATH": str(Path(chaoskit.__file__).parent.parent)}, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        holder = int(harness.stdout.readline())
        until(lambda: told("node0-0") and told("node1-0"))
    finally:
        harness.kill()
        harness.communicate()
    until(lambda: not processes.marked(place.run_id) and not scratch.path(place.run_id).exists())
    until(lambda: not Path(f"/proc/{holder}").exists())


def test_more_nodes_than_there_are_addresses_are_refused(begin):
    begin("250", entered=False)
    with pytest.raises(UsageError, match="nnodes: 251 virtual hosts are more than the 250 that can be had"):
        begin("1:251", entered=False)


def test_what_cannot_be_started_leaves_nothing(begin, place):
    env = begin("2")
    with pytest.raises(UsageError, match="no-such-program"):
        env.launch(0, ["no-such-program"])
    assert processes.marked(place.run_id) == []


def test_where_there_are_no_hosts_nothing_is_begun(begin, place, monkeypatch):
    from chaoskit.environments.netns import client

    monkeypatch.setattr(client, "_SCRIPT", Path("/no/such/holder.py"))
    with pytest.raises(chaoskit.errors.ChaoskitError, match="the netns helper has ended"):
        begin("2")
    assert not scratch.path(place.run_id).exists()


@as_root_only
@pytest.mark.slow
def test_most_of_it_as_an_ordinary_user(request):
    repeat(request, __file__, "-m", "not slow", "-k", "returns or frozen or network or left")
