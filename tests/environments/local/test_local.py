"""The local environment: launches, gates, signals, orders, and nothing left behind."""

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
from chaoskit.capabilities import CanOrder, CanSignal, CanTouchFiles
from chaoskit.environments import ENVIRONMENTS, environment
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.local.environment import LocalEnvironment
from chaoskit.environments.machine import processes, scratch
from chaoskit.errors import UsageError
from chaoskit.protocol.fingerprint import LENT, library

RANK = [sys.executable, "-I", "-S", str(Path(__file__).parents[1] / "stub_rank.py")]


def test_the_files_of_the_job(place):
    with LocalEnvironment(place) as env:
        one, two = env.aside(), env.aside()
        assert one != two and one.parent == place.run_dir and env.out() == place.out
        with pytest.raises(LookupError):
            env.stored_checkpoints()
        with pytest.raises(LookupError):
            env.checkpoint_paths()


def _code(text):
    return [sys.executable, "-I", "-S", "-c", text]


def test_the_registry():
    assert environment("local") is ENVIRONMENTS["local"] is LocalEnvironment
    assert LocalEnvironment.available() is None
    with pytest.raises(UsageError, match=r"'moon'.*local"):
        environment("moon")


def test_a_run_from_gate_to_gate(place):
    with LocalEnvironment(place) as env:
        assert all(isinstance(env, can) for can in (CanSignal, CanOrder, CanTouchFiles))
        env.launch(0, [*RANK, "1", "2"])
        for n in range(2):
            (arrived,) = env.wait(10)
            pid = env.rank_process(1).pid
            assert arrived == Arrived(1, 0, 0, pid, "step", n, 1, {"n": n + 1})
            assert env.launcher_processes()[0] == env.rank_process(1)
            assert env.wait(0.01) == []
            env.release(1, keep_gating=True)
        assert env.wait(10) == [Ended(0, 0)]
        assert env.wait(0.01) == []
        assert env.stop() == ()
        with pytest.raises(LookupError):
            env.launcher_processes()[0]
        with pytest.raises(LookupError):
            env.rank_process(1)
        assert (place.run_dir / "logs" / "launch-0.log").read_text() == "done\n"
        env.launch(1, [*RANK, "1", "1"])
        (arrived,) = env.wait(10)
        assert (arrived.launch, arrived.pid) == (1, env.rank_process(1).pid)
    assert not (place.run_dir / "gate.sock").exists()


def test_faults_take_effect(place, until):
    with LocalEnvironment(place) as env:
        env.launch(0, [*RANK, "0", "3"])
        env.wait(10)
        rank = env.rank_process(0)
        assert env.signal(rank, signal.SIGSTOP)
        until(lambda: env.state(rank) == "stopped")
        assert env.stacks() == {0: "stopped (SIGSTOP)"}
        assert env.signal(rank, signal.SIGCONT)
        until(lambda: env.state(rank) == "running")
        env.order(0, {"do": "raise", "type": "RuntimeError", "message": "injected"})
        env.release(0, keep_gating=True)
        until(lambda: env.raised(0))
        (ended,) = env.wait(10)
        assert ended.code == 1
        env.launch(1, [*RANK, "0", "3"])
        env.wait(10)
        env.order(0, {"do": "exit", "code": 7})
        env.release(0, keep_gating=True)
        assert env.wait(10) == [Ended(1, 7)]
        env.launch(2, [*RANK, "0", "3"])
        env.wait(10)
        assert env.signal(env.rank_process(0), signal.SIGKILL)
        assert env.wait(10) == [Ended(2, -9)]


def test_survivors_of_a_launcher_that_was_killed(place):
    rank = ["setsid", "env", "RANK=1", *RANK, "1", "9"]
    with LocalEnvironment(place, ColdLauncher(grace=1)) as env:
        env.launch(0, _code(f"import subprocess; subprocess.run({rank!r})"))
        (arrived,) = env.wait(10)
        launcher = env.launcher_processes()[0]
        assert launcher.pid != arrived.pid
        env.signal(launcher, signal.SIGKILL)
        (ended,) = env.wait(10)
        assert (ended.code, [(each["pid"], each["rank"]) for each in ended.survivors]) == (-9, [(arrived.pid, 1)])
        assert processes.identify(arrived.pid) is None


def test_stop_ends_a_job_that_ignores_sigterm(place):
    with LocalEnvironment(place) as env:
        env.launch(0, _code("import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(1000)"))
        pid = env.launcher_processes()[0].pid
        began = time.monotonic()
        assert [each["pid"] for each in env.stop()] == [pid]
        assert time.monotonic() - began < 2
        assert env.wait(1) == [Ended(0, -9)]


def test_ranks_without_a_gate_are_known_by_their_events(place, until):
    with LocalEnvironment(replace(place, gated=False)) as env:
        with pytest.raises(LookupError):
            env.rank_process(0)
        env.launch(0, [*RANK, "0", "1"])
        until(lambda: list((place.run_dir / "events").glob("*")) and _knows(env, 0))
        assert env.rank_process(0) == env.launcher_processes()[0]
        with pytest.raises(LookupError):
            env.order(0, {"do": "exit", "code": 1})
        assert not env.raised(0)
        assert not (place.run_dir / "gate.sock").exists()
        env.launch(1, _code("import time; time.sleep(1000)"))
        assert not _knows(env, 0)


def _knows(env, rank):
    try:
        return env.rank_process(rank)
    except LookupError:
        return None


def test_what_the_job_is_given(place, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.setenv("CHAOSKIT_LAUNCH", "7")
    monkeypatch.setenv("CHAOSKIT_STALE", "1")
    monkeypatch.setenv("PET_TEE", "1")
    for gated in (True, False):
        with LocalEnvironment(replace(place, gated=gated, env={"A": "{b}", "LANG": "\udcff"})) as env:
            env.launch(3, _code("import json, os; json.dump(dict(os.environ), open('env', 'w'))"))
            assert env.wait(10) == [Ended(3, 0)]
            given = json.loads((place.cwd / "env").read_text())
            tmp = Path(given["TMPDIR"])
            assert tmp == scratch.path(place.run_id) and len(str(tmp)) < 60
            assert tmp.stat().st_mode & 0o777 == 0o700
            assert json.loads((tmp / "owner.json").read_text())["pid"] == os.getpid()
        assert not tmp.exists()
        site = Path(chaoskit.__file__).parent / "probe" / "site"
        assert given["PYTHONPATH"] == f"{site}:/theirs"
        assert (given["A"], given["LANG"]) == ("{b}", "\udcff")
        assert {name: value for name, value in given.items() if name.startswith(("CHAOSKIT_", "PET_"))} == {
            "CHAOSKIT_RUN": str(place.run_dir),
            "CHAOSKIT_ID": place.run_id,
            "CHAOSKIT_LAUNCH": "3",
            "CHAOSKIT_OUT": str(place.out),
            LENT: library(),
            "PET_TEE": "1",
            "PET_LOG_DIR": str(place.run_dir / "logs" / "ranks" / "launch-3"),
            **({"CHAOSKIT_GATE": f"unix:{place.run_dir}/gate.sock"} if gated else {}),
        }


def test_what_cannot_be_started_leaves_nothing(place):
    with pytest.raises(UsageError, match="no-such-program"), LocalEnvironment(place) as env:
        env.launch(0, ["no-such-program"])
    with LocalEnvironment(place), pytest.raises(UsageError, match="temporary directory"):
        LocalEnvironment(place).__enter__()  # the other one lives


def test_a_directory_that_cannot_be_used(place):
    (place.run_dir / "logs").touch()
    with pytest.raises(UsageError, match="run's directory"):
        LocalEnvironment(place).__enter__()


def test_a_scratch_directory_of_a_dead_harness_is_taken_over(place):
    dead = scratch.path(place.run_id)
    dead.mkdir()
    (dead / "owner.json").write_text(json.dumps({"pid": os.getpid(), "start": 1}))
    (dead / "left").touch()
    with LocalEnvironment(place):
        assert not (dead / "left").exists()


HARNESS = """
import json, signal, sys
from pathlib import Path
from chaoskit.environments.local.environment import LocalEnvironment
from chaoskit.environments.environment import RunSpec
run = Path(sys.argv[1])
place = RunSpec(run_dir=run, out=run / "out", cwd=run, run_id=sys.argv[2])
with LocalEnvironment(place) as env:
    env.launch(0, json.loads(sys.argv[3]))
    signal.pause()
"""

WORKER = """
import os, pathlib, tempfile, time
tempfile.mkstemp()
rank = os.environ["RANK"]
print("hello from", rank, flush=True)
pathlib.Path(os.environ["CHAOSKIT_OUT"], rank).write_text(f"{os.getpid()} {os.getsid(0)} {os.getppid()}")
time.sleep(1000)
"""


@pytest.mark.launches
def test_torchrun_and_its_workers_die_with_the_harness(place, until):
    """Each worker leads a session of its own, so no signal to a process group would reach it."""
    script = place.cwd / "worker.py"
    script.write_text(WORKER)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(place.run_dir), place.run_id, json.dumps(command)],
        env={**os.environ, "PYTHONPATH": str(Path(chaoskit.__file__).parent.parent)},
    )
    try:
        files = [place.out / "0", place.out / "1"]
        until(lambda: all(file.exists() and file.read_text() for file in files), timeout=60)
        told = [[int(word) for word in file.read_text().split()] for file in files]
        agent = told[0][2]
        assert all(session == pid != os.getsid(agent) for pid, session, _ in told)
        assert len(processes.marked(place.run_id)) >= 3
        until(lambda: "hello from 1" in (place.run_dir / "logs" / "launch-0.log").read_text())
        (log,) = (place.run_dir / "logs" / "ranks" / "launch-0").rglob("1/stdout.log")
        assert log.read_text() == "hello from 1\n"
    finally:
        harness.kill()
        harness.wait()
    until(lambda: not processes.marked(place.run_id) and not scratch.path(place.run_id).exists())
