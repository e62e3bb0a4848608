"""An environment of another kind stands on the seams alone: no module of chaoskit knows that it exists."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.capabilities import CanCorruptNumbers, CanFailStorage, CanOrder, CanPartition, CanSignal
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.environments import offers, register_environment
from chaoskit.environments.environment import Ended
from chaoskit.environments.registry import environments
from chaoskit.errors import MissingCapability, UsageError
from chaoskit.protocol.events import rank_events, read_events
from chaoskit.studies.crash_states.explore import explore
from chaoskit.studies.sdc.survey import make_map
from tests.environments.tcp_hosts.environment import TcpHosts
from tests.users import must_have

TRAINER = Path(__file__).resolve().parents[2] / "trainers" / "simple.py"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Known as `--env tcp-hosts` while a test runs."""
    monkeypatch.setattr("chaoskit.environments.registry.ENVIRONMENTS", dict(environments()))
    register_environment(TcpHosts)


@pytest.fixture
def runner(tmp_path):
    return Runner(Store(tmp_path), environment="tcp-hosts")


def test_what_it_can_do_is_asked_of_its_class(runner):
    assert all(offers("tcp-hosts", can) for can in (CanSignal, CanOrder, CanCorruptNumbers))
    assert not any(offers("tcp-hosts", can) for can in (CanPartition, CanFailStorage))
    job = Job(str(TRAINER), ["--out", "{out}"])
    with pytest.raises(MissingCapability, match=r"CanPartition.*--env netns"):
        runner.run(job, faults.partition(seconds=1).at_step(2))
    with pytest.raises(MissingCapability, match=r"watched storage.*--env local"):
        runner.run(job, storage="watched")
    with pytest.raises(UsageError, match="4 nodes at most"):
        runner.run(Job(str(TRAINER), ["--out", "{out}"], nnodes=5), faults.kill(rank=0).at_step(2))


def test_studies_ask_for_what_they_need(runner):
    job = Job(str(TRAINER), ["--out", "{out}"])
    with pytest.raises(MissingCapability, match="CanShowDirectory"):
        explore(runner, job, profiles=["kill"])
    with pytest.raises(MissingCapability, match="puts files where all ranks find them"):
        make_map(runner, job, seconds=1, window=2, tolerance=0.1)


def test_nothing_in_chaoskit_names_it():
    package = Path(sys.modules["chaoskit"].__file__).parent
    assert not [path for path in package.rglob("*.py") if "tcp-hosts" in path.read_text()]


def time_namespaces():
    """None where a process may have a clock of its own, else why not."""
    told = subprocess.run(["unshare", "--time", "--monotonic=5", "--fork", "true"], capture_output=True, text=True)
    return told.stderr.strip() or None if told.returncode else None


@pytest.mark.slow
def test_a_rank_on_another_host_is_killed(request, runner, monkeypatch):
    """Two hosts, the second one's clock 5 s ahead: a rank there is killed, and the job goes on exactly."""
    must_have(request, time_namespaces())
    monkeypatch.setattr(TcpHosts, "clock_off", 5.0)
    job = Job(str(TRAINER), ["--out", "{out}", "--epochs", "2"], nproc_per_node=1, nnodes=2)
    run = runner.run(job, faults.kill(rank=1).at_step(7))
    verdicts = run.verify(
        checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.matches_reference()
    )
    assert len(verdicts) >= 4 and {verdict.outcome.value for verdict in verdicts} == {"pass"}
    assert run.summary.resumed_from == run.summary.last_valid == 4
    names = sorted(path.name for path in (run.dir / "events").glob("rank-*.jsonl"))
    assert Counter(name.split(".")[1] for name in names) == {"host0": 2, "host1": 2}, "two launches on two hosts"
    _clocks_are_right(run.dir)
    _no_token_is_told(run.dir)


def _clocks_are_right(run_dir):
    offsets = {event.source.split(".")[1]: event["offset"] for event in rank_events(run_dir, "clock")}
    assert list(offsets) == ["host1"] and abs(offsets["host1"] + 5.0) < 0.5, "the same clock needs no event"
    launches = {
        event["launch"]: event.t
        for event in read_events(run_dir / "events" / "harness.jsonl")
        if event.kind == "launch.start"
    }
    ends = [e.t for e in read_events(run_dir / "events" / "harness.jsonl") if e.kind == "launch.end"]
    for event in rank_events(run_dir, "process.start"):
        launch = event["launch"]
        assert launches[launch] < event.t < ends[launch], (event.source, event.t)
    # A step is over on both hosts before either takes the one after the next.
    steps = sorted(rank_events(run_dir, "step"), key=lambda event: event.t)
    for launch in launches:
        own = [event["n"] for event in steps if event.source.startswith(f"rank-{launch}-")]
        assert all(later >= n - 1 for at, n in enumerate(own) for later in own[at:]), own


def _no_token_is_told(run_dir):
    """The token stands in no record: neither in events nor in logs nor on a command line that is recorded."""
    for path in run_dir.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".jsonl", ".log"):
            assert "CHAOSKIT_GATE_TOKEN" not in path.read_text(errors="replace"), path


def test_a_rank_with_a_wrong_token_says_so_and_goes_on_alone(tmp_path, place):
    """No torch: the probe in a plain process whose environment names its rank."""
    program = tmp_path / "program.py"
    program.write_text("print('went on')\n")
    with TcpHosts(replace(place, env={"RANK": "0", "WORLD_SIZE": "1"})) as env:
        env.gate.door.environment["CHAOSKIT_GATE_TOKEN"] = "wrong"
        env.launch(0, [sys.executable, str(program)])
        while not any(isinstance(each, Ended) for each in env.wait(10)):
            pass
    (error,) = rank_events(place.run_dir, "probe.error")
    assert error["where"] == "gate" and "token" in error["error"]
    assert "went on" in (place.run_dir / "logs" / "launch-0.log").read_text()


def test_signals_reach_the_process_that_a_reference_names(tmp_path, place, until):
    program = tmp_path / "program.py"
    program.write_text("import time\ntime.sleep(1000)\n")
    with TcpHosts(replace(place, env={"RANK": "0", "WORLD_SIZE": "1"})) as env:
        with pytest.raises(LookupError, match="not running"):
            env.launcher_processes()
        env.launch(0, [sys.executable, str(program)])
        found = []

        def up():
            env.wait(0.01)
            with suppress(LookupError):
                found.append(env.rank_process(0))
            return found

        until(up)
        assert found[0].key.startswith("host0/") and env.state(found[0]) == "running"
        assert env.signal(found[0], signal.SIGKILL)
        until(lambda: env.state(found[0]) == "gone")
        assert not env.signal(found[0], signal.SIGKILL)
        with pytest.raises(LookupError, match="rank 0 is gone"):
            env.rank_process(0)
