"""The elastic agent of a warm launch is torch's own, and waits for nobody who is not there."""

from __future__ import annotations

import inspect
import os
import random
import socket
import subprocess
import threading
import time
import weakref
from datetime import timedelta
from types import SimpleNamespace

import pytest

from chaoskit.environments.launch import agent_time, forkserver, roles
from chaoskit.environments.launch.forker import ForkedRank
from chaoskit.environments.launch.launcher import LaunchEnd
from chaoskit.environments.launch.program import read
from tests.environments.launch.stage import PYTHON, TORCHRUN, over

dynamic = pytest.importorskip("torch.distributed.elastic.rendezvous.dynamic_rendezvous")
tail_log = pytest.importorskip("torch.distributed.elastic.multiprocessing.tail_log")


@pytest.fixture
def spared(monkeypatch):
    """After the test, torch has again what is its own."""
    handler = dynamic.DynamicRendezvousHandler
    for owner, name in (
        (dynamic, "get_method_name"), (dynamic, "_delay"), (handler, "next_rendezvous"),
        (tail_log, "time"), (tail_log.TailLog, "stop"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, getattr(owner, name))
    finalizers = [each for each in list(weakref.finalize._registry) if each.atexit]
    yield
    for each in finalizers:
        each.atexit = True


class Backend:
    """A state that several agents share, and how often it was asked for."""

    name = "test"

    def __init__(self):
        self.state, self.count, self.gets, self.lock = None, 0, 0, threading.Lock()

    def get_state(self):
        with self.lock:
            self.gets += 1
            return self.state and (self.state, self.count)

    def set_state(self, state, token=None):
        with self.lock:
            if (token or 0) == self.count:
                self.count += 1
                self.state = state
                return self.state, self.count, True
            return self.state, self.count, False


class Agents:
    """Agents in threads of this process. Their sleeps are noted, and take no time but for those that are ours."""

    def __init__(self, monkeypatch, *, least, most):
        self.backend, self.slept, self.least, self.most = Backend(), [], least, most
        monkeypatch.setattr("torch.distributed.elastic.rendezvous.utils.time", SimpleNamespace(sleep=self.slept.append))
        monkeypatch.setattr(dynamic.DynamicRendezvousHandler, "_get_store", lambda self: None)
        monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
        monkeypatch.setattr(dynamic.RendezvousStoreInfo, "build", lambda *_, **__: None)
        self.handlers = []

    def join(self):
        """One more agent joins; its rank and the size of the world."""
        timeout = dynamic.RendezvousTimeout(join=timedelta(seconds=60), last_call=timedelta(seconds=0.1))
        handler = dynamic.DynamicRendezvousHandler.from_backend(
            "a run", None, self.backend, self.least, self.most, timeout=timeout
        )
        self.handlers.append(handler)
        info = handler.next_rendezvous()
        return info.rank, info.world_size

    def leave(self):
        """Stop their heartbeats."""
        for handler in self.handlers:
            handler._stop_heartbeats()


@pytest.fixture
def agents(monkeypatch):
    made = []

    def make(**size):
        made.append(Agents(monkeypatch, **size))
        return made[-1]

    yield make
    for each in made:
        each.leave()


def test_an_agent_that_is_alone_does_not_wait_at_random(spared, agents, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    torchs = agents(least=1, most=1)
    assert torchs.join() == (0, 1) and torchs.slept == [0.3]
    agent_time.save_time()
    alone = agents(least=1, most=1)
    assert alone.join() == (0, 1) and alone.slept == []


def test_agents_that_wait_for_each_other_alone_see_at_once_that_all_have_come(spared, agents):
    agent_time.save_time()
    two, found = agents(least=2, most=2), []
    first = threading.Thread(target=lambda: found.append(two.join()))
    first.start()
    while two.backend.count == 0:
        time.sleep(0.001)
    looked = two.backend.gets
    time.sleep(0.1)
    assert first.is_alive() and found == [] and two.backend.gets - looked <= 0.2 / agent_time.LOOK_EVERY
    found.append(two.join())
    first.join(30)
    assert sorted(found) == [(0, 2), (1, 2)] and two.slept == []


def test_news_end_the_wait_whatever_it_was_to_take(spared):
    backend = Backend()
    known = backend.set_state(b"one")[1]
    holder = SimpleNamespace(_backend=backend, _token=known, _last_sync_time=time.monotonic())
    agent_time._wait_for_news(holder, 0.01)
    assert holder._last_sync_time > 0  # there were none
    waits = threading.Thread(target=agent_time._wait_for_news, args=(holder, 600.0), daemon=True)
    waits.start()
    assert backend.set_state(b"two", known)[2]
    waits.join(30)
    assert not waits.is_alive() and holder._last_sync_time < 0, "the state that it had kept would do"


def test_where_the_number_of_nodes_is_not_fixed_the_times_are_torchs_own(spared, agents, monkeypatch):
    """There the time decides who takes part."""
    agent_time.save_time()
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    monkeypatch.setattr(agent_time, "_wait_for_news", lambda *_: pytest.fail("waited otherwise"))
    one = agents(least=1, most=2)
    assert one.join() == (0, 1)
    assert one.slept[0] == 0.3 and set(one.slept[1:]) == {1}


def test_who_is_not_at_a_rendezvous_sleeps_as_torch_does(spared, monkeypatch):
    slept = []
    monkeypatch.setattr("torch.distributed.elastic.rendezvous.utils.time", SimpleNamespace(sleep=slept.append))
    agent_time.save_time()
    dynamic._delay(1)
    assert slept == [1]


class Names:
    """Calls the function as torch does: from a method that records for another."""

    def named(self, depth):
        return dynamic.get_method_name() if depth is None else dynamic.get_method_name(depth)

    def records(self, depth=None):
        return self.named(depth)


def test_the_calling_method_has_the_same_name(spared, monkeypatch):
    asked = (None, 1, 2, 3, 10_000)
    before = [Names().records(depth) for depth in asked]
    agent_time.save_time()
    monkeypatch.setattr(inspect, "stack", lambda *_: pytest.fail("it read the sources"))
    assert [Names().records(depth) for depth in asked] == before
    assert before[0] == "records" and before[-1] == "no_method_name"


def test_all_output_is_printed_and_nobody_sleeps_on(spared, tmp_path):
    """The thread is asleep when the last lines come. Torch's sleep would last as long as the test may."""
    agent_time.save_time()
    log, printed = tmp_path / "log", []
    log.write_text("one\n")
    tail = tail_log.TailLog("rank", {0: str(log)}, SimpleNamespace(write=printed.append), interval_sec=600.0)
    tail.start()
    while not printed:
        time.sleep(0.001)
    time.sleep(0.05)
    with log.open("a") as file:
        file.write("two\nthree\n")
    assert printed == ["[rank0]:one\n"]
    ends = threading.Thread(target=tail.stop, daemon=True)
    ends.start()
    ends.join(30)
    assert not ends.is_alive() and tail.stopped()
    assert printed == ["[rank0]:one\n", "[rank0]:two\n", "[rank0]:three\n"]


def test_what_the_parent_has_imported_is_left_when_the_agent_exits(spared):
    class Object:
        pass

    parents, ended = Object(), []
    finalizer = weakref.finalize(parents, ended.append, "the parent's")
    agent_time.save_time()
    own = weakref.finalize(Object, ended.append, "its own")
    assert (finalizer.atexit, own.atexit) == (False, True)
    own.detach()
    del parents
    assert ended == ["the parent's"]


def test_another_version_of_torch_takes_its_time(spared, monkeypatch):
    for module, name in ((dynamic, "get_method_name"), (dynamic, "_delay"), (tail_log, "TailLog")):
        monkeypatch.delattr(module, name)
    agent_time.save_time()
    assert not hasattr(dynamic, "_delay") and not hasattr(dynamic, "get_method_name")


def test_the_end_of_a_rank_is_not_waited_for_in_steps(monkeypatch):
    """`Popen` itself would sleep, longer and longer, and look."""
    waits, go = os.pipe()

    def fork(stdout, stderr):
        pid = os.fork()
        if pid == 0:
            os.read(waits, 1)
            os._exit(3)
        return pid

    rank = ForkedRank(["rank"], fork=fork)
    with pytest.raises(subprocess.TimeoutExpired):
        rank.wait(0.001)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"slept {seconds} s"))
    threading.Timer(0.2, os.write, (go, b"1")).start()
    assert rank.wait(60) == 3 and rank.poll() == 3 and rank.wait(60) == 3


@pytest.mark.parametrize(
    ("words", "done"),
    [
        (["-m", "torch.distributed.run", "train.py"], ["forker", "agent", "saves time", "runs"]),
        (["train.py"], ["runs"]),
    ],
)
def test_an_agent_saves_time_and_nobody_else(words, done, monkeypatch, tmp_path):
    (tmp_path / "train.py").touch()
    seen = []
    monkeypatch.setattr(forkserver, "Forker", lambda *_, **__: seen.append("forker"))
    monkeypatch.setattr(forkserver, "serve_agent", lambda _: seen.append("agent"))
    monkeypatch.setattr(forkserver, "save_time", lambda: seen.append("saves time"))
    monkeypatch.setattr(roles, "be", lambda *_, **__: seen.append("runs"))
    monkeypatch.setattr(roles, "end_after", lambda role: role())
    program = read([PYTHON, *words], interpreter=PYTHON, env={}, cwd=str(tmp_path))
    forkserver._command(program, {}, str(tmp_path), roles.ProcessOrigin((), {}), "a run")
    assert seen[: len(done)] == done


def test_ranks_have_torch_as_it_is(stage):
    looks = stage.script(
        "from torch.distributed.elastic.multiprocessing import tail_log\n"
        "from torch.distributed.elastic.rendezvous import dynamic_rendezvous\n"
        "handler = dynamic_rendezvous.DynamicRendezvousHandler\n"
        "for one in dynamic_rendezvous.get_method_name, dynamic_rendezvous._delay, handler.next_rendezvous, "
        "tail_log.TailLog.stop:\n"
        "    print(one.__module__)\n"
    )
    told = stage.play([*TORCHRUN, "1", looks]).text
    assert told.count("torch.distributed.elastic") == 4 and "chaoskit" not in told


def test_a_group_comes_to_its_end_as_ever(stage):
    """Two agents on this machine, whose number is fixed: all their output is there, and their exit codes."""
    program = stage.script("import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])")
    words = [*TORCHRUN, "1", "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "two", "--tee", "3"]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        words += ["--rdzv-endpoint", f"localhost:{free.getsockname()[1]}"]
    launches = [stage.start([*words, program], log=f"agent-{number}") for number in range(2)]
    outcomes = [over(launch, stage.place / f"agent-{number}") for number, launch in enumerate(launches)]
    assert [outcome.end for outcome in outcomes] == [LaunchEnd(0)] * 2, [outcome.text for outcome in outcomes]
    lines = sorted(line for outcome in outcomes for line in outcome.text.splitlines() if "rank " in line)
    assert lines == ["[default0]:rank 0 of 2", "[default0]:rank 1 of 2"]
