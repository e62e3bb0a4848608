"""`EndNotice`: a first process that passes SIGTERM on to the job, and ends when that has."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from chaoskit.environments.machine import processes

#: Stands in for an agent: its own command, and what it knows of the notice whenever a line comes.
FIRST = """
import json, os, signal, subprocess, sys
from chaoskit.environments.agents.end_notice import EndNotice
from chaoskit.environments.machine.processes import identify

notice = EndNotice()
signal.signal(signal.SIGTERM, notice.receive)
child = subprocess.Popen([sys.executable, "-c", {code!r}], stdout=subprocess.PIPE, text=True)
assert child.stdout.readline() == "up\\n"
notice.launched(identify(child.pid))
print(child.pid, flush=True)
for line in sys.stdin:
    print(json.dumps(notice.tell()), flush=True)
"""
#: A job that takes so long to end after SIGTERM, or for ever.
JOB = """
import signal, sys, time
def leave(*_):
    time.sleep({seconds})
    sys.exit(7)
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
while True:
    time.sleep(1)
"""


@pytest.fixture
def begin():
    """Starts such a first process; gives it, and the pid of its job."""
    made = []

    def start(seconds):
        words = [sys.executable, "-c", FIRST.format(code=JOB.format(seconds=seconds))]
        first = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        made.append(first)
        job = int(first.stdout.readline())
        made.append(processes.identify(job))
        return first, job

    yield start
    for first, job in zip(made[::2], made[1::2], strict=True):
        first.kill()
        first.wait()
        processes.send(job, signal.SIGKILL)


def ask(first):
    first.stdin.write("?\n")
    first.stdin.flush()
    return json.loads(first.stdout.readline())


def test_the_job_gets_it_and_its_end_is_the_end(begin, until):
    first, job = begin(0.5)
    assert ask(first) is None
    first.send_signal(signal.SIGTERM)
    until(lambda: ask(first) is not None)
    until(lambda: (ask(first) or {})["ended"] is not None)
    told = ask(first)
    assert told["passed_on"] == [job] and told["delivered"] and 0.5 <= told["ended"] <= told["seconds"]
    assert first.wait(timeout=30) == 0


def test_whoever_does_not_end_keeps_it_there(begin, until):
    first, job = begin(1000)
    first.send_signal(signal.SIGTERM)
    until(lambda: ask(first) is not None)
    time.sleep(0.3)
    told = ask(first)
    assert (told["passed_on"], told["ended"]) == ([job], None) and first.poll() is None


def test_it_ends_although_nobody_hears_of_the_end(begin):
    first, _ = begin(0)
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=60) == 0
