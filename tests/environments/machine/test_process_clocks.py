"""The wall clocks of running processes are set, in these alone, and back again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chaoskit.environments.machine import clock_patch, process_clocks, processes
from chaoskit.environments.machine.process_clocks import set_wall_clocks
from chaoskit.environments.machine.processes import Process
from chaoskit.errors import ChaoskitError
from tests.users import must_have

#: Tells, each time it is asked, how far each way to ask for the wall clock is ahead of the monotonic clock. Its other
#: threads ask all the time.
TELLS = """
import ctypes, datetime, json, os, subprocess, sys, threading, time
libc = ctypes.CDLL(None)
libc.time.restype = ctypes.c_long
class Pair(ctypes.Structure):
    _fields_ = [("first", ctypes.c_long), ("second", ctypes.c_long)]
def ask():
    while True:
        time.time(); time.monotonic(); libc.gettimeofday(ctypes.byref(Pair()), None); libc.time(None)
for _ in range(int(sys.argv[1])):
    threading.Thread(target=ask, daemon=True).start()
def told():
    of_day, coarse, base = Pair(), Pair(), time.monotonic()
    libc.gettimeofday(ctypes.byref(of_day), None)
    libc.clock_gettime(5, ctypes.byref(coarse))
    return {
        "time": time.time() - base, "nanoseconds": time.time_ns() / 1e9 - base,
        "date": datetime.datetime.now(datetime.timezone.utc).timestamp() - base,
        "gettimeofday": of_day.first + of_day.second / 1e6 - base, "coarse": coarse.first + coarse.second / 1e9 - base,
        "seconds": libc.time(None) - base, "boot": time.clock_gettime(time.CLOCK_BOOTTIME) - base,
    }
def of_child(how):
    if how == "exec":
        code = "import time; print(time.time() - time.monotonic())"
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout)
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(time.time() - time.monotonic()).encode())
        os._exit(0)
    os.wait()
    return float(os.read(read, 100))
print(json.dumps(told()), flush=True)
for line in sys.stdin:
    word = line.strip()
    print(json.dumps(told() if word == "told" else of_child(word)), flush=True)
"""
WALL = ("time", "nanoseconds", "date", "gettimeofday", "coarse", "seconds")


class Clock:
    """One process and what it told first."""

    def __init__(self, threads):
        command = [sys.executable, "-I", "-S", "-c", TELLS, str(threads)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = json.loads(self.child.stdout.readline())
        self.process = processes.identify(self.child.pid)

    def asks(self, word):
        self.child.stdin.write(word + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def moved(self):
        """By how much each clock has moved."""
        now = self.asks("told")
        return {name: now[name] - before for name, before in self.first.items()}


@pytest.fixture
def clock(request):
    must_have(request, process_clocks.why_not())
    made = []

    def make(threads=0):
        made.append(Clock(threads))
        return made[-1]

    yield make
    for one in made:
        one.child.kill()
        one.child.communicate()


@pytest.mark.parametrize("by", [-600.0, 600.5, -1.25, 86400.0 * 3650, -86400.0 * 3650, 0.75])
def test_every_way_to_ask_for_the_wall_clock_jumps_and_no_other_clock(clock, by):
    one = clock()
    assert set_wall_clocks([one.process], by) == {}
    moved = one.moved()
    for name in WALL:
        # Whole seconds say no more than that, and the base is read a moment before.
        near = {"seconds": 2.1, "coarse": 0.1}.get(name, 0.05)
        assert abs(moved[name] - by) < near, (name, moved)
    assert abs(moved["boot"]) < 0.05
    assert set_wall_clocks([one.process], 0.0) == {}
    assert all(abs(moved) < 1.1 for moved in one.moved().values())
    assert abs(one.moved()["time"]) < 0.05


def test_another_offset_takes_the_place_of_the_first(clock):
    one = clock()
    for by in (5.0, -7.0, 3.0):
        set_wall_clocks([one.process], by)
        assert abs(one.moved()["time"] - by) < 0.05


def test_only_that_process_and_its_forks_have_it(clock):
    one, other = clock(), clock()
    set_wall_clocks([one.process], 1000.0)
    assert abs(one.asks("fork") - one.first["time"] - 1000) < 0.1
    assert abs(one.asks("exec") - one.first["time"]) < 0.1
    assert abs(other.moved()["time"]) < 0.1 and abs(time.time() - time.monotonic() - other.first["time"]) < 0.1


def test_threads_that_ask_all_the_time_survive_every_change(clock):
    one = clock(threads=8)
    for number in range(20):
        assert set_wall_clocks([one.process], (-1) ** number * 100.0 * (number % 5)) == {}
    set_wall_clocks([one.process], 0.0)
    assert one.child.poll() is None and abs(one.moved()["time"]) < 0.1
    assert all(not _traced(tid) for tid in os.listdir(f"/proc/{one.child.pid}/task"))


def _traced(tid):
    return "TracerPid:\t0\n" not in Path(f"/proc/{tid}/status").read_text()


def test_no_signal_is_lost_meanwhile(clock):
    """Signals of this kind are queued, and the handler of the interpreter writes a byte for each."""
    code = """
import os, signal, sys
read, write = os.pipe()
os.set_blocking(write, False)
os.set_blocking(read, False)
signal.set_wakeup_fd(write)
signal.signal(signal.SIGRTMIN, lambda *ignored: None)
print(flush=True)
for line in sys.stdin: print(len(os.read(read, 1 << 20)), flush=True)
"""
    command = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        done, sent = threading.Event(), 0
        sets = threading.Thread(target=_set_often, args=(processes.identify(child.pid), done))
        sets.start()
        while not done.is_set():
            child.send_signal(signal.SIGRTMIN)
            sent += 1
            time.sleep(0.0001)
        sets.join()
        child.stdin.write("\n")
        child.stdin.flush()
        assert sent > 100 and int(child.stdout.readline()) == sent


def _set_often(process, done):
    for number in range(20):
        set_wall_clocks([process], float(number))
    done.set()


@pytest.mark.parametrize("busy", [2, None])
def test_a_function_is_not_replaced_under_a_thread_that_is_in_its_beginning(clock, monkeypatch, busy):
    one = clock()
    vdso, begins, asked = clock_patch._Vdso(), _vdso_of(one.child.pid), []
    begins += vdso.functions["__vdso_gettimeofday"]

    class Stopped(clock_patch._Stopped):
        def next_instructions(self):
            asked.append(0)
            return [begins + 4 if busy is None or len(asked) <= busy else begins + 64]

        def go_on(self):
            assert abs(one.moved()["time"]) < 0.1 if busy is None else True
            time.sleep(0.001)

    monkeypatch.setattr(clock_patch, "_Stopped", Stopped)
    monkeypatch.setattr(Stopped, "__enter__", lambda self: self)
    monkeypatch.setattr(clock_patch, "_CLEAR_LIMIT", 0.2 if busy is None else 60.0)
    if busy is None:
        with pytest.raises(TimeoutError):
            clock_patch.shift(one.child.pid, 30.0, vdso)
        assert abs(one.moved()["time"]) < 0.1
    else:
        clock_patch.shift(one.child.pid, 30.0, vdso)
        assert len(asked) == busy + 1 and abs(one.moved()["time"] - 30) < 0.1


def _vdso_of(pid):
    return clock_patch._mapped(pid)[0]


def test_a_stopped_process_stays_stopped_and_has_it_when_it_goes_on(clock, until):
    one = clock()
    processes.send(one.process, signal.SIGSTOP)
    until(lambda: processes.state(one.process) == "stopped")
    assert set_wall_clocks([one.process], 50.0) == {}
    # The kernel lets go of it, and then it stops again by itself.
    until(lambda: processes.state(one.process) == "stopped")
    processes.send(one.process, signal.SIGCONT)
    assert abs(one.moved()["time"] - 50) < 0.5


def test_one_that_has_ended_is_left_out_and_one_of_another_user_is_named(clock):
    one = clock()
    one.child.kill()
    one.child.wait()
    assert set_wall_clocks([one.process], 5.0) == {} == set_wall_clocks([], 5.0)
    kernel = Process(2, 0)
    assert set(set_wall_clocks([kernel], 5.0)) <= {2}


def test_a_program_tells_itself_from_the_one_before_it(until):
    shell = subprocess.Popen(["sh", "-c", "read x; exec sleep 100"], stdin=subprocess.PIPE)
    try:
        process = processes.identify(shell.pid)
        before = processes.program(process)
        assert before and processes.program(process) == before
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        until(lambda: processes.program(process) != before)
        assert processes.identify(shell.pid) == process
    finally:
        shell.kill()
        shell.communicate()
    assert processes.program(process) == ""


def test_processors_of_another_kind_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(clock_patch.platform, "machine", lambda: "aarch64")
    assert clock_patch.main(["5", str(os.getpid())]) == 1
    assert "aarch64" in json.loads(capsys.readouterr().out)["all"]


def test_a_vdso_without_room_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(clock_patch.signal, "signal", lambda *ignored: None)
    vdso = clock_patch._Vdso()
    vdso.end = len(vdso.image) - 16
    with pytest.raises(OSError, match="no room"):
        vdso.replaced(5.0)


def test_a_helper_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(clock_patch, "__file__", "/nowhere.py")
    with pytest.raises(ChaoskitError, match=r"cannot be set: .*nowhere"):
        set_wall_clocks([Process(os.getpid(), 0)], 5.0)
    process_clocks.why_not.cache_clear()
    assert "run it on Linux on x86-64" in process_clocks.why_not()
    process_clocks.why_not.cache_clear()
