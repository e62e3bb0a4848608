"""A launch on several nodes: the agents start, fail and end as one job; nobody here trains anything."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from math import inf

import pytest

from chaoskit.environments.launch import multi_node_launch
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.launcher import LaunchEnd
from chaoskit.environments.launch.multi_node_launch import MultiNodeLaunch
from chaoskit.environments.launch.order import Order
from chaoskit.environments.machine import processes
from chaoskit.errors import UsageError

PYTHON = [sys.executable, "-I", "-S", "-c"]
WAITS = "time.sleep(1000)"
#: Ends as it is told to, and says that it was.
HEEDS = """
def note(*_):
    open(name + "-told", "w").close()
    sys.exit(3)
signal.signal(signal.SIGTERM, note)
open(name + "-up", "w").close()
time.sleep(1000)
"""
IGNORES = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(name + "-up", "w").close()
time.sleep(1000)
"""
#: Waits for a file and ends with the code that it holds.
WHEN_TOLD = """
while not os.path.exists(name + "-go"):
    time.sleep(0.005)
sys.exit(int(open(name + "-go").read() or 0))
"""


@pytest.fixture
def told():
    """What was told of nodes."""
    return []


@pytest.fixture
def make(tmp_path, run_id, told):
    """A launch whose nodes run these programs; one that runs WAITS and the like is up when this returns."""
    programs = {}
    made = []

    def start(node):
        code = f"import os, signal, sys, time\nname = {node!r}\n{programs[node]}"
        env = {"CHAOSKIT_ID": run_id, "CHAOSKIT_NODE": node, "PATH": os.environ["PATH"]}
        order = Order([*PYTHON, code], env=env, cwd=tmp_path, log=tmp_path / "log", run_id=run_id)
        return ColdLauncher(grace=0.2).start(order)

    def begin(together=True, **given):
        programs.update(given)
        tell = lambda kind, data: told.append((kind, data))  # noqa: E731
        made.append(MultiNodeLaunch(list(given), start=start, tell=tell, together=together))
        made[-1].programs = programs
        return made[-1]

    yield begin
    for each in made:
        each.close()


@pytest.fixture
def up(tmp_path, until):
    """Wait until these nodes have said that they are up."""
    return lambda *nodes: until(lambda: all((tmp_path / f"{node}-up").exists() for node in nodes))


def tell(path, words):
    """All at once: whoever waits for a file reads it as soon as it is there."""
    path.with_suffix(".new").write_text(words)
    path.with_suffix(".new").rename(path)


def over(made, timeout=10.0):
    """Wait for its end, as an environment does: no longer than it has patience, and only if something may be new."""
    deadline, looks = time.monotonic() + timeout, 0
    while (end := made.ended()) is None:
        assert time.monotonic() < deadline, "it never ended"
        poll = select.poll()
        poll.register(made, select.POLLIN)
        poll.poll(1000 * max(0.0, min(made.patience, deadline - time.monotonic())))
        looks += 1
    assert looks < 20, "it is looked at again and again although nothing is new"
    return end


def ends(told):
    return {data["node"]: (data["code"], data["cause"]) for kind, data in told if kind == "node.end"}


def test_it_ends_with_0_once_every_agent_has(make, told, tmp_path):
    made = make(a=WHEN_TOLD, b=WHEN_TOLD)
    agents = made.agents
    assert told == [("node.start", {"node": n, "pid": agents[n].pid, "how": "cold"}) for n in "ab"]
    assert (made.how, made.process, made.patience) == ("cold", agents["a"], inf)
    assert made.ended() is None
    (tmp_path / "b-go").touch()
    assert select.select([made], [], [], 10)[0]
    assert made.ended() is None and list(made.agents) == ["a"]
    assert not select.select([made], [], [], 0.01)[0], "nothing is new until the other ends"
    (tmp_path / "a-go").touch()
    assert over(made) == LaunchEnd(0) == made.ended()
    assert ends(told) == {"b": (0, "itself"), "a": (0, "itself")}
    assert made.stop() == () and made.agents == {} and not made.is_failing
    assert made.ended() == LaunchEnd(0)


def test_when_one_fails_the_others_are_told_to_end(make, told, tmp_path, up):
    made = make(a=HEEDS, b=WHEN_TOLD, c=HEEDS)
    up("a", "c")
    tell(tmp_path / "b-go", "7")
    began = time.monotonic()
    assert over(made) == LaunchEnd(7)
    assert time.monotonic() - began < multi_node_launch.KILL_WAIT / 2
    assert made.is_failing
    assert all((tmp_path / f"{node}-told").exists() for node in "ac")
    assert ends(told) == {"b": (7, "itself"), "a": (3, "supervisor"), "c": (3, "supervisor")}
    assert next(iter(ends(told))) == "b"


def test_who_does_not_heed_it_is_killed_a_while_later(make, told, tmp_path, up, monkeypatch):
    monkeypatch.setattr(multi_node_launch, "KILL_WAIT", 0.4)
    made = make(a=IGNORES, b=WHEN_TOLD)
    up("a")
    tell(tmp_path / "b-go", "7")
    assert select.select([made], [], [], 10)[0]
    assert made.ended() is None
    assert 0 < made.patience <= 0.4
    began = time.monotonic()
    assert over(made) == LaunchEnd(7)
    assert time.monotonic() - began < 5
    assert ends(told) == {"b": (7, "itself"), "a": (-9, "supervisor")}


@pytest.mark.parametrize("code", [0, 3])
def test_who_was_asked_to_end_has_not_failed_whatever_its_code(make, told, tmp_path, up, until, code):
    made = make(a=WHEN_TOLD, b=HEEDS.replace("exit(3)", f"exit({code})"))
    up("b")
    made.ask_to_end("b", cause="removed")
    until(lambda: made.ended() or list(made.agents) == ["a"])
    assert not made.is_failing and made.patience == inf
    made.ask_to_end("b", cause="twice")
    (tmp_path / "a-go").touch()
    assert over(made) == LaunchEnd(0)
    assert ends(told) == {"b": (code, "removed"), "a": (0, "itself")}


def test_who_is_left_to_others_gets_no_signal_when_another_fails(make, told, tmp_path, up, monkeypatch):
    """It has a grace of its own, which nobody here cuts short."""
    monkeypatch.setattr(multi_node_launch, "KILL_WAIT", 0.1)
    made = make(a=HEEDS, b=WHEN_TOLD, c=WHEN_TOLD)
    up("a")
    made.leave_to_others("b", cause="evicted")
    tell(tmp_path / "c-go", "7")
    while "a" in made.agents:
        made.ended()
    assert made.is_failing and made.patience == inf
    time.sleep(0.3)
    assert made.ended() is None and list(made.agents) == ["b"]
    tell(tmp_path / "b-go", "5")
    assert over(made) == LaunchEnd(7)
    assert ends(told)["b"] == (5, "evicted")


def test_a_node_is_lost_at_once_with_all_that_runs_on_it_and_another_joins(make, told, tmp_path, until, up):
    child = "import subprocess; subprocess.Popen(['setsid', 'sleep', '1000']);" + IGNORES
    made = make(a=WHEN_TOLD, b=child)
    up("b")
    first = made.agents["b"]
    ended = made.end("b", cause="lost")
    assert first.pid in {each["pid"] for each in ended} and len(ended) == 2
    assert all(processes.identify(each["pid"]) is None for each in ended)
    assert made.end("b", cause="again") == ()
    assert (made.ended(), list(made.agents), made.is_failing) == (None, ["a"], False)
    made.programs.update(b=WHEN_TOLD, c=WHEN_TOLD)
    for node in "bc":
        made.join(node)
    assert made.agents["b"] != first
    assert [data["node"] for kind, data in told if kind == "node.start"] == ["a", "b", "b", "c"]
    assert not select.select([made], [], [], 0.01)[0], "the end of who was lost is no news"
    for node in "abc":
        (tmp_path / f"{node}-go").touch()
    assert over(made) == LaunchEnd(0)
    assert ("node.end", {"node": "b", "code": -9, "cause": "lost"}) in told


def test_who_has_lost_all_its_nodes_was_killed(make):
    made = make(a=WAITS, b=WAITS)
    for node in "ab":
        made.end(node, cause="lost")
    assert over(made) == LaunchEnd(-signal.SIGKILL)


def test_an_agent_that_fails_after_another_was_lost_is_the_one_that_failed(make, told, tmp_path):
    made = make(a=WHEN_TOLD, b=WAITS)
    made.end("b", cause="lost")
    tell(tmp_path / "a-go", "5")
    assert over(made) == LaunchEnd(5)
    assert ends(told) == {"b": (-9, "lost"), "a": (5, "itself")}


def test_agents_that_are_not_one_job_outlive_one_that_fails_and_another_takes_its_place(make, told, tmp_path):
    made = make(together=False, a=WHEN_TOLD, b=WHEN_TOLD)
    tell(tmp_path / "b-go", "7")
    while "b" in made.agents:
        assert made.ended() is None
    assert not made.is_failing and made.patience == inf and list(made.agents) == ["a"]
    (tmp_path / "b-go").unlink()
    made.join("b")
    for node in "ab":
        tell(tmp_path / f"{node}-go", "0")
    assert over(made) == LaunchEnd(0), "who was replaced does not count"


@pytest.mark.parametrize(("code", "known"), [("5", 5), ("0", -signal.SIGKILL)])
def test_of_agents_that_are_not_one_job_all_that_are_left_must_have_ended_with_0(make, tmp_path, code, known):
    made = make(together=False, a=WAITS, b=WHEN_TOLD)
    made.end("a", cause="lost")
    tell(tmp_path / "b-go", code)
    assert over(made) == LaunchEnd(known)


def test_it_can_be_told_to_fail_as_a_whole(make, told, tmp_path, up):
    made = make(a=HEEDS, b=HEEDS, c=WHEN_TOLD)
    up("a", "b")
    (tmp_path / "c-go").touch()
    while "c" in made.agents:
        made.ended()
    made.fail()
    made.fail()
    assert over(made) == LaunchEnd(-signal.SIGKILL), "it is to be launched again, although one came to its end"
    assert ends(told) == {"c": (0, "itself"), "a": (3, "supervisor"), "b": (3, "supervisor")}


def test_what_outlives_an_agent_is_told(make, tmp_path):
    child = "import subprocess\nsubprocess.Popen(['setsid', 'env', 'RANK={}', 'sleep', '1000'])\n"
    made = make(a=child.format(0), b=child.format(1) + WHEN_TOLD)
    (tmp_path / "b-go").touch()
    end = over(made)
    assert (end.code, sorted(each["rank"] for each in end.survivors)) == (0, [0, 1])
    assert all(processes.identify(each["pid"]) is None for each in end.survivors)


def test_stop_ends_everything_and_says_what(make, told, tmp_path, up):
    made = make(a=IGNORES, b=WHEN_TOLD, c=WAITS)
    up("a")
    (tmp_path / "b-go").touch()
    while "b" in made.agents:
        made.ended()
    agents = [process.pid for process in made.agents.values()]
    assert [each["pid"] for each in made.stop()] == agents and len(agents) == 2
    assert made.stop() == ()
    assert ends(told) == {"b": (0, "itself"), "a": (-9, "stop"), "c": (-9, "stop")}
    assert made.ended() == LaunchEnd(-signal.SIGKILL), "one has come to its end, the job has not"


def test_closing_ends_everything_and_may_be_done_twice(make, run_id, until):
    before = os.listdir("/proc/self/fd")
    made = make(a=IGNORES, b=WAITS)
    made.end("b", cause="lost")
    made.join("b")
    until(lambda: len(processes.marked(run_id)) >= 2)  # a fork shows its own environment once it is the command
    made.close()
    made.close()
    assert processes.marked(run_id) == []
    assert os.listdir("/proc/self/fd") == before, "somebody's keeper is still there"


def test_where_one_cannot_be_started_nobody_is(run_id, tmp_path, told):
    open_before = os.listdir("/proc/self/fd")

    def start(node):
        command = ["no-such-program"] if node == "c" else ["sleep", "1000"]
        env = {"CHAOSKIT_ID": run_id, "PATH": os.environ["PATH"]}
        return ColdLauncher().start(Order(command, env=env, cwd=tmp_path, log=tmp_path / "log", run_id=run_id))

    with pytest.raises(UsageError, match="no-such-program"):
        MultiNodeLaunch(["a", "b", "c"], start=start, tell=lambda *_: None)
    assert processes.marked(run_id) == []
    assert os.listdir("/proc/self/fd") == open_before
