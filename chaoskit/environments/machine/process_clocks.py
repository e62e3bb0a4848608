"""The wall clocks of running processes of this machine: set them, and find out whether that is possible."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from chaoskit.environments.machine import clock_patch
from chaoskit.environments.machine.processes import Process
from chaoskit.errors import ChaoskitError

_LIMIT = 60.0
#: Tells the time when it is asked, until nobody asks any more.
_TELLS = "import sys, time\nprint(flush=True)\nfor line in sys.stdin: print(time.time() - time.monotonic(), flush=True)"
_TRIED = 1000.0


def set_wall_clocks(processes: Iterable[Process], by: float) -> dict[int, str]:
    """Let the wall clocks of these processes be off by so many seconds, 0: be right again. Returns why it failed, by
    pid; one that has ended is left out. Raises ChaoskitError if it is not possible on this machine."""
    pids = [str(process.pid) for process in processes]
    if not pids:
        return {}
    command = [sys.executable, "-I", "-S", str(Path(clock_patch.__file__)), str(by), *pids]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, start_new_session=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ChaoskitError(f"the wall clocks of processes cannot be set: {error}") from error
    try:
        failed: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        failed = {"all": done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"}
    if "all" in failed:
        raise ChaoskitError(f"the wall clocks of processes cannot be set: {failed['all']}")
    return {int(pid): why for pid, why in failed.items()}


@cache
def why_not() -> str | None:
    """None if a process of this machine can have another wall clock, else the reason and the remedy; tried once."""
    command = [sys.executable, "-I", "-S", "-c", _TELLS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trial:
        assert trial.stdin is not None and trial.stdout is not None

        def told() -> float:
            assert trial.stdin is not None and trial.stdout is not None
            trial.stdin.write("\n")
            trial.stdin.flush()
            return float(trial.stdout.readline())

        trial.stdout.readline()
        before = told()
        try:
            failed = set_wall_clocks([Process(trial.pid, 0)], _TRIED)
        except ChaoskitError as error:
            return f"{error}: run it on Linux on x86-64, or on pods with Chaos Mesh (--env kubernetes)"
        if why := failed.get(trial.pid):
            remedy = "run as root, or allow it: sysctl kernel.yama.ptrace_scope=0"
            return f"the wall clock of a process cannot be set ({why}): {remedy}"
        moved = told() - before
        if abs(moved - _TRIED) > 1:
            return f"a clock was set {_TRIED:g} s forward and moved by {moved:.1f} s: run it on another machine"
    return None
