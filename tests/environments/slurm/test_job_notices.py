"""Notices of preemption on a real Slurm: who takes the signal, and what becomes of the node."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace

import pytest

from chaoskit.capabilities import CanOwnAddress, CanPreempt, CanServeMetadata, PreemptionNotice
from chaoskit.environments.environment import Ended
from chaoskit.environments.slurm.environment import SlurmEnvironment
from chaoskit.environments.slurm.orders import order
from chaoskit.environments.slurm.signal_wish import SignalWish, signal_wish
from chaoskit.nodes import Nodes
from tests.environments.slurm.test_room import JOB as QUEUED

pytestmark = pytest.mark.launches

#: A rank, by the task that it is. It writes a line for each signal.
RANK = """
import json, os, signal, sys, time
node, rank, launch = os.environ["SLURMD_NODENAME"], int(os.environ.get("SLURM_PROCID", 0)), 0
def note(n, _): print(node, n, flush=True)
if "deaf" not in sys.argv:
    for n in (10, 15): signal.signal(n, note)
with open("/proc/self/stat") as file:
    start = int(file.read().rpartition(")")[2].split()[19])
me = {"e": "process.start", "role": "rank", "rank": rank, "pid": os.getpid(), "start": start, "launch": launch}
with open(f"{os.environ['CHAOSKIT_RUN']}/events/{node}.jsonl", "w") as events:
    events.write(json.dumps({**me, "restart": 0, "t": 1.0, "node": node}) + "\\n")
print(node, "up", flush=True)
while True: time.sleep(0.1)
"""
SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --signal {signal}
trap 'echo script told' USR1
srun "$@" &
wait; wait; wait
"""
#: Slurm's own notice, as the fault gives it.
SLURM = PreemptionNotice(seconds=500, signal=signal.SIGUSR1, to_children=True, kills=False)


@pytest.fixture
def lines(place):
    """What the job has written."""
    return lambda: (place.run_dir / "logs" / "launch-0.log").read_text().splitlines()


@pytest.fixture
def begin(slurm, place, python, lines, until):
    """The environment, with a job on two nodes whose ranks are up. With a `signal`, it has a batch script."""
    made = []

    def enter(*words, wish=""):
        env = SlurmEnvironment(replace(place, nodes=Nodes(2, 2), gated=False)).__enter__()
        made.append(env)
        command = [*python(RANK), *words]
        if wish:
            (place.cwd / "job.sh").write_text(SCRIPT.format(signal=wish))
            command = ["sbatch", "job.sh", *command]
        env.launch(0, command)
        until(lambda: sum("up" in line for line in lines()) == 2, timeout=60)
        return env

    yield enter
    for each in made:
        each.__exit__(None, None, None)
    assert slurm.queued() == []


def turn(env, until):
    """Deal with what happens until that is so; how the launch has ended, if it has."""
    deadline, end = time.monotonic() + 60, None
    while not until():
        assert time.monotonic() < deadline
        end = next((event for event in env.wait(0.1) if isinstance(event, Ended)), end)
    return end


def over(env, node):
    """What became of the notice to that node."""
    turn(env, lambda: env.preempted(node) is not None)
    return env.preempted(node)


def test_the_capability():
    assert issubclass(SlurmEnvironment, CanPreempt)
    assert not issubclass(SlurmEnvironment, CanServeMetadata) and not issubclass(SlurmEnvironment, CanOwnAddress)


def test_slurm_tells_the_whole_job_and_one_node_is_killed(begin, lines):
    env = begin()
    first, second = env.preemptible()
    assert env.node_of(1) == second
    env.preempt(second, replace(SLURM, seconds=3, kills=True))
    found = over(env, second)
    assert found["ended"] is None and found["killed"] >= 3
    (receipt,) = found["received"]
    assert 0 <= receipt["after"] < 3
    assert {f"{first} 10", f"{second} 10"} <= {*lines()}
    assert env.is_lost(second) and not env.is_lost(first)
    turn(env, lambda: env.job.run.has_ended)
    json.dumps(found)


def test_all_nodes_are_told_once(begin, lines):
    env = begin()
    nodes = env.preemptible()
    for node in nodes:
        env.preempt(node, replace(SLURM, seconds=2, times=2))
    for node in nodes:
        found = over(env, node)
        assert found["times"] == 2 and len(found["received"]) == 1 and found["killed"] is None
    assert sorted(line for line in lines() if "10" in line) == sorted([f"{node} 10" for node in nodes] * 2)


def test_a_signal_that_did_not_come_is_not_received(begin, monkeypatch):
    env = begin()
    monkeypatch.setattr(env.job, "signal", lambda signum: None)
    (_, second) = env.preemptible()
    env.preempt(second, replace(SLURM, seconds=1))
    assert over(env, second)["received"] == []


def test_the_batch_script_alone_is_told_if_it_says_so(begin, lines, monkeypatch):
    env = begin(wish="B:USR1@60")
    (_, second) = env.preemptible()
    order = env.job.signal
    monkeypatch.setattr(env.job, "signal", lambda signum: None)
    env.preempt(second, replace(SLURM, seconds=1))
    assert over(env, second)["received"] == []
    monkeypatch.setattr(env.job, "signal", order)
    env.preempt(second, replace(SLURM, seconds=2))
    assert len(over(env, second)["received"]) == 1
    assert [line for line in lines() if "up" not in line] == ["script told"]


def test_other_signals_are_sent_on_one_node_alone(begin, lines, until):
    env = begin()
    first, second = env.preemptible()
    env.preempt(second, PreemptionNotice(seconds=1, signal=signal.SIGTERM, kills=False))
    assert len(over(env, second)["received"]) == 1
    until(lambda: f"{second} 15" in lines())
    assert f"{first} 15" not in lines()
    env.preempt(first, PreemptionNotice(seconds=1, signal=signal.SIGUSR1, rank=0, to_agent=True, kills=False))
    assert len(over(env, first)["received"]) == 1
    assert f"{first} 10" in lines() and f"{second} 10" not in lines()


def test_a_file_is_there_for_all_nodes(begin, place):
    env = begin()
    file = place.out / "emergency_checkpoint"
    env.preempt(env.preemptible()[0], PreemptionNotice(seconds=1, file=str(file), kills=False))
    assert file.exists()
    over(env, env.preemptible()[0])
    assert not file.exists()


def test_a_job_that_does_not_handle_it_has_ended(begin):
    env = begin("deaf")
    _, second = env.preemptible()
    env.preempt(second, replace(SLURM, kills=True))
    found = over(env, second)
    assert found["killed"] is None and found["ended"] < 60


def test_nobody_to_tell(begin):
    env = begin()
    for node, notice in (
        ("cn9", SLURM),
        (env.preemptible()[0], replace(SLURM, rank=1)),
        (env.preemptible()[0], PreemptionNotice(seconds=1, cloud="aws")),
    ):
        with pytest.raises(LookupError):
            env.preempt(node, notice)


def test_the_signal_that_a_batch_job_wants(tmp_path):
    def wish(*command, **env):
        return signal_wish(command, tmp_path, env)

    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -N 2 --signal=B:USR1@120\n")
    assert wish("sbatch", "job.sh", "{out}") == SignalWish("USR1", 120, to_script=True)
    assert wish("sbatch", "job.sh", SBATCH_SIGNAL="10@30") == SignalWish("10", 30, to_script=False)
    given = ("sbatch", "--signal", "SIGTERM", "job.sh")
    assert wish(*given, SBATCH_SIGNAL="10") == SignalWish("TERM", 60, to_script=False)
    script.write_text("#!/bin/sh\n#SBATCH --signal RB:usr2\n")
    assert wish("sbatch", "job.sh") == SignalWish("USR2", 60, to_script=True)
    script.write_text("#!/bin/sh\n#SBATCH --signal=?\n")
    assert wish("sbatch", "job.sh") is None and wish("torchrun", "job.sh") is None
    # sbatch submits the allocation of such a command, too.
    script.write_text("#!/bin/sh\n#SBATCH --signal=USR2\n")
    in_allocation = wish("torchrun", "--signal=USR2", "job.sh", SBATCH_SIGNAL="USR1@60")
    assert in_allocation == SignalWish("USR1", 60, to_script=False)


def test_the_words_of_a_signal():
    assert order("signal", QUEUED, run="r1", signum=10) == ["scancel", "--signal=10", "7"]
    assert order("signal script", QUEUED, run="r1", signum=10) == ["scancel", "--signal=10", "--batch", "7"]
