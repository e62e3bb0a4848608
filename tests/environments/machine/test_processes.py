"""Processes are known by pid and start time, and nobody else is struck."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from chaoskit.capabilities import ProcessRef
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process


@pytest.fixture
def sleeper(run_id):
    child = subprocess.Popen(["sleep", "1000"], env={**os.environ, "CHAOSKIT_ID": run_id, "CHAOSKIT_RUN": "/tmp"})
    yield child
    child.kill()
    child.wait()


def test_running_stopped_gone(sleeper, until):
    process = processes.identify(sleeper.pid)
    assert processes.state(process) == "running"
    assert processes.send(process, signal.SIGSTOP)
    until(lambda: processes.state(process) == "stopped")
    assert processes.send(process, signal.SIGKILL)
    until(lambda: processes.state(process) == "gone")  # a zombie: nobody has waited for it
    assert not processes.send(process, signal.SIGTERM)
    assert processes.delivered(process, signal.SIGTERM)
    sleeper.wait()
    assert processes.state(process) == "gone"
    assert processes.identify(sleeper.pid) is None
    assert processes.wait_gone([process], timeout=0)


def test_a_pid_that_is_used_again_is_never_struck(sleeper):
    process = processes.identify(sleeper.pid)
    earlier = Process(process.pid, process.started - 1)
    assert processes.state(earlier) == "gone"
    assert not processes.send(earlier, signal.SIGKILL)
    assert processes.state(process) == "running"


def test_a_process_whose_main_thread_has_left_is_not_gone(run_id, until):
    """`ps` calls it defunct, yet another thread of it still writes files."""
    code = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(1000,)).start();"
    code += "ctypes.CDLL(None).pthread_exit(0)"
    child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "CHAOSKIT_ID": run_id})
    try:
        process = processes.identify(child.pid)
        until(lambda: ") Z " in Path(f"/proc/{child.pid}/stat").read_text())
        assert processes.state(process) == "running"
        assert processes.send(process, signal.SIGKILL)
        until(lambda: processes.state(process) == "gone")
    finally:
        child.kill()
        child.wait()


def test_delivered_is_caught_and_no_longer_pending(until, run_id):
    code = "import signal, sys, time; signal.signal(signal.SIGUSR1, lambda *_: None); print(flush=True);"
    child = subprocess.Popen([sys.executable, "-c", code + "time.sleep(1000)"], stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        process = processes.identify(child.pid)
        processes.send(process, signal.SIGSTOP)
        until(lambda: processes.state(process) == "stopped")
        processes.send(process, signal.SIGUSR1)
        assert not processes.delivered(process, signal.SIGUSR1)
        assert not processes.delivered(process, signal.SIGUSR2)  # which it does not catch
        processes.send(process, signal.SIGCONT)
        until(lambda: processes.delivered(process, signal.SIGUSR1))
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_marked_processes_are_found_and_ended(sleeper, run_id, tmp_path):
    process = processes.identify(sleeper.pid)
    assert processes.marked(run_id) == [process]
    assert processes.marked(run_id[:-1]) == []
    assert processes.end_marked(run_id, run_dir=tmp_path) == []
    assert processes.end_marked(run_id, run_dir=tmp_path / ".." / ".." / ".." / ".." / ".." / "tmp") == [process]
    assert sleeper.wait() == -signal.SIGKILL


def test_in_the_middle_of_an_exec_a_process_is_not_overlooked(sleeper, run_id, monkeypatch):
    read, asked = Path.read_bytes, []

    def as_in_an_exec(path):
        if path != Path(f"/proc/{sleeper.pid}/environ"):
            return read(path)
        asked.append(path)
        return b"" if len(asked) < 5 else read(path)

    monkeypatch.setattr(Path, "read_bytes", as_in_an_exec)
    assert processes.marked(run_id) == [processes.identify(sleeper.pid)]
    assert len(asked) == 5


def test_a_process_that_was_given_no_variables_is_not_waited_for(run_id, until):
    child = subprocess.Popen(["sleep", "1000"], env={})
    try:
        until(lambda: Path(f"/proc/{child.pid}/cmdline").read_bytes() == b"sleep\x001000\x00")
        begun = time.monotonic()
        assert processes.marked(run_id) == []
        assert time.monotonic() - begun < processes._EXEC_LIMIT
    finally:
        child.kill()
        child.wait()


def test_a_reference_is_read_back_and_survives_json(sleeper):
    process = processes.identify(sleeper.pid)
    ref = process.ref
    assert ref.pid == sleeper.pid and Process.of(ref) == process
    assert Process.of(ProcessRef(**json.loads(json.dumps(asdict(ref))))) == process
    earlier = ProcessRef(ref.pid, str(process.started - 1))
    assert processes.state(Process.of(earlier)) == "gone", "the pid is another process's now"
