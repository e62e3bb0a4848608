"""The keeper ends whatever descends from the command: when asked to, and when the harness dies."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import chaoskit
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.launcher import LaunchEnd
from chaoskit.environments.launch.order import Order
from chaoskit.environments.machine import processes
from chaoskit.errors import ChaoskitError, UsageError

#: A rank of its own session, as torchrun starts them; tells its pid by a file, then sleeps.
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        open("daemon", "w").write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
while not os.path.exists("daemon") or not open("daemon").read():
    time.sleep(0.01)
"""


def _end(launch):
    # The news of a quick end may have come with that of the start.
    assert launch.ended() or select.select([launch], [], [], 60)[0]
    return launch.ended()


def test_the_end_the_output_and_the_surroundings(start, tmp_path):
    launch = start(
        "import os, sys; print(sys.stdin.read(), os.environ['A'], os.getcwd()); print('no', file=sys.stderr);"
        "print(os.getpgrp() == os.getpid()); sys.exit(3)",
        A="b",
    )
    assert _end(launch) == LaunchEnd(3)
    assert sorted((tmp_path / "log").read_text().split()) == sorted(["b", str(tmp_path), "True", "no"])
    assert launch.stop() == ()
    assert launch.ended() == LaunchEnd(3)


def test_a_signal_is_a_negative_code(start):
    launch = start("import os; os.kill(os.getpid(), 9)")
    assert _end(launch) == LaunchEnd(-9)


def test_what_cannot_be_started(tmp_path):
    for command, cwd in ((["no-such-program"], tmp_path), (["true"], tmp_path / "absent")):
        with pytest.raises(UsageError, match=command[0]):
            ColdLauncher().start(Order(command, env={}, cwd=cwd, log=tmp_path / "log", run_id="none"))


def test_signals_are_as_a_shell_would_have_them(start, tmp_path):
    old = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        launch = start("print([l for l in open('/proc/self/status') if l[:6] in ('SigIgn', 'SigBlk')])")
        _end(launch)
    finally:
        signal.signal(signal.SIGTERM, old)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    blocked, ignored = (tmp_path / "log").read_text().split("', '")
    assert int(blocked.split("\\t")[1][:16], 16) == 0
    stopping = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
    assert not int(ignored.split("\\t")[1][:16], 16) & sum(1 << (each - 1) for each in stopping)


def test_survivors_are_told_and_ended(start, tmp_path):
    launch = start(DAEMON + "raise SystemExit(4)", grace=0.2, RANK="1")
    end = _end(launch)
    pid = int((tmp_path / "daemon").read_text())
    assert end.code == 4
    assert [(each["pid"], each["rank"]) for each in end.survivors] == [(pid, 1)]
    assert "python" in end.survivors[0]["command"]
    assert processes.identify(pid) is None


def test_who_leaves_within_the_grace_is_no_survivor(start):
    began = time.monotonic()
    launch = start("import os, time\nif os.fork() == 0: time.sleep(0.3)", grace=20)
    assert _end(launch) == LaunchEnd(0)
    assert time.monotonic() - began < 5


def test_stop_ends_the_deaf_the_stopped_and_the_runaway(start, tmp_path, until):
    launch = start(
        DAEMON
        + """
for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
if os.fork() == 0:
    open("stopped", "w").write(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(1000)
"""
    )
    pids = [launch.process.pid]
    for name in ("daemon", "stopped"):
        until(lambda name=name: (tmp_path / name).exists() and (tmp_path / name).read_text())
        pids.append(int((tmp_path / name).read_text()))
    stopped = processes.identify(pids[2])
    until(lambda: processes.state(stopped) == "stopped")
    os.kill(launch.process.pid, signal.SIGTERM)  # which it does not mind
    assert launch.ended() is None
    began = time.monotonic()
    ended = launch.stop()
    assert time.monotonic() - began < 3
    assert sorted(each["pid"] for each in ended) == sorted(pids)
    assert all(processes.identify(pid) is None for pid in pids)
    assert launch.ended() == LaunchEnd(-9)
    assert launch.stop() == ()


def test_stop_ends_what_keeps_forking(start, tmp_path, until, run_id):
    """Every child becomes a session and forks the next one, 400 in all; half of their parents leave at once."""
    launch = start(
        """
import os, time
for i in range(400):
    if os.fork() == 0:
        if i % 3 == 0:
            os.setsid()
    elif i % 2:
        os._exit(0)
    else:
        time.sleep(1000)
    if i == 30:
        open("many", "w")
    time.sleep(0.001)
time.sleep(1000)
""",
        grace=60,
    )
    until((tmp_path / "many").exists)
    assert launch.stop()
    assert processes.marked(run_id) == []


def test_the_keeper_ignores_what_is_meant_for_the_harness(start, run_id):
    launch = start("import time; time.sleep(1000)")
    keeper = _parent(launch.process.pid)
    assert os.getsid(keeper) == keeper
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(keeper, signum)
    assert not select.select([launch], [], [], 0.1)[0]
    assert [each["pid"] for each in launch.stop()] == [launch.process.pid]


def test_a_keeper_that_is_killed_is_missed(start, run_id):
    launch = start("import time; time.sleep(1000)")
    os.kill(_parent(launch.process.pid), signal.SIGKILL)
    select.select([launch], [], [], 10)
    with pytest.raises(ChaoskitError, match="keeper"):
        launch.ended()
    with pytest.raises(ChaoskitError, match="keeper"):
        launch.close()
    launch.close()
    assert processes.end_marked(run_id) == [launch.process]


HARNESS = """
import os, signal, sys
from pathlib import Path
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.order import Order
here = Path(sys.argv[1])
order = Order(
    [sys.executable, "-I", "-S", "-c", sys.argv[2]],
    env=dict(os.environ), cwd=here, log=here / "log", tmp=here / "tmp", run_id="harness",
)
launch = ColdLauncher().start(order)
"""

#: Its child makes shared memory and is killed and reaped by its parent, out of the keeper's sight.
SHARER = """
import time
child = os.fork()
if child == 0:
    open(f"/dev/shm/torch_{os.getpid()}_77_0", "w")
    open(f"/dev/shm/torch_1_{os.environ['CHAOSKIT_ID']}_0", "w")
    open("shared", "w").write(f"/dev/shm/torch_{os.getpid()}_77_0")
    time.sleep(1000)
while not os.path.exists("shared") or not open("shared").read():
    time.sleep(0.01)
time.sleep(0.1)
os.kill(child, 9)
os.wait()
open("ready", "w")
time.sleep(1000)
"""


@pytest.mark.parametrize("death", ["killed", "left", "killed, leaving a fork"])
def test_nothing_outlives_the_harness(tmp_path, until, run_id, death):
    (tmp_path / "tmp" / "deep").mkdir(parents=True)
    last = {
        "killed": "signal.pause()",
        "left": "while not (here / 'ready').exists(): pass\nos._exit(0)",
        "killed, leaving a fork": "if os.fork() == 0: signal.alarm(5)\nsignal.pause()",
    }[death]
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS + last, str(tmp_path), DAEMON + SHARER],
        env={**os.environ, "CHAOSKIT_ID": run_id, "PYTHONPATH": str(Path(chaoskit.__file__).parent.parent)},
    )
    try:
        until((tmp_path / "ready").exists)
        shared, foreign = Path((tmp_path / "shared").read_text()), Path(f"/dev/shm/torch_1_{run_id}_0")
        assert shared.exists() or death == "left"
        daemon = int((tmp_path / "daemon").read_text())
    finally:
        harness.kill()
        harness.wait()
    until(lambda: not (tmp_path / "tmp").exists())
    # The fork of a harness shares its mark, and is nobody of the job.
    until(lambda: len(processes.marked(run_id)) == ("fork" in death))
    assert processes.identify(daemon) is None
    assert not shared.exists()
    assert foreign.exists()  # of a process that was never ours
    foreign.unlink()
    assert len(processes.end_marked(run_id)) == ("fork" in death)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
