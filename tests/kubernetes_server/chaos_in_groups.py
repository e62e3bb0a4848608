"""StressChaos for real: processes in the control groups of a pod's container and in its pid namespace, as those of
chaos-daemon are. It needs root.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_GROUPS = Path("/sys/fs/cgroup")
_UNITS = {"B": 1, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
#: Starts processes in a pid namespace and in control groups, tells that they are there, and waits for their end. They
#: end with it, and it ends with its parent.
STRESSORS = """
import ctypes, mmap, os, sys, time
space, groups, score, cpus, load, memories, size, _ = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
DIE_WITH_PARENT, KILL, NEW_PID = 1, 9, 0x20000000
libc.prctl(DIE_WITH_PARENT, KILL)
if libc.setns(os.open(space, os.O_RDONLY), NEW_PID):
    raise OSError(ctypes.get_errno(), "setns")

def compute():
    while True:
        end = time.monotonic() + int(load) / 1000
        while time.monotonic() < end:
            pass
        time.sleep(0.1 - int(load) / 1000)

def hold():
    held = mmap.mmap(-1, int(size))
    for at in range(0, int(size), mmap.PAGESIZE):
        held[at] = 1
    time.sleep(1e6)

works = [compute] * int(cpus) + [hold] * int(memories)
pids = []
for work in works:
    pid = os.fork()
    if pid == 0:
        libc.prctl(DIE_WITH_PARENT, KILL)
        for group in groups.split(":"):
            with open(group + "/cgroup.procs", "w") as file:
                file.write("0")
        if work is hold:
            try:
                with open("/proc/self/oom_score_adj", "w") as file:
                    file.write(score)
            except PermissionError:  # a machine on which root may not lower it
                pass
        os.write(1, b".")
        os.close(1)
        work()
    pids.append(pid)
os.close(1)
for pid in pids:
    os.waitpid(pid, 0)
time.sleep(1e6)
"""


def stress(spec: Json, pids: list[int], *, dies: bool = False) -> Callable[[], None]:
    """Start the stressors in the containers of these processes. If one `dies`, the kernel kills it before the job.
    Raises OSError for what is not possible here."""
    stressors = spec["stressors"]
    cpu, memory = stressors.get("cpu") or {}, stressors.get("memory") or {}
    workers = {"cpu": cpu.get("workers", 0), "memory": memory.get("workers", 0)}
    score = 1000 if dies else memory.get("oomScoreAdj", 0)
    words = [str(score), str(workers["cpu"]), str(cpu.get("load") or 100),
             str(workers["memory"]), str(_bytes(memory["size"]) if workers["memory"] else 0)]  # fmt: skip
    made: list[subprocess.Popen[bytes]] = []

    def undo() -> None:
        for one in made:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
            one.communicate()  # until the last of them has let go of its standard error
        made.clear()

    try:
        for pid in pids:
            groups = ":".join(map(str, groups_of(pid)))
            made.append(_started([f"/proc/{pid}/ns/pid", groups, *words], sum(workers.values())))
    except BaseException:
        undo()
        raise
    return undo


def groups_of(pid: int) -> list[Path]:
    """The control groups of a process, in every hierarchy that controls something. Raises OSError if it has ended."""
    found = []
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        number, names, path = line.split(":", 2)
        if number == "0" and (_GROUPS / "cgroup.controllers").exists():
            found.append(_GROUPS / path.lstrip("/"))
        elif names and not names.startswith("name="):
            found.append(_GROUPS / names / path.lstrip("/"))
    return found


def _started(words: list[str], count: int) -> subprocess.Popen[bytes]:
    # The last word tells them from those of other tests on this machine.
    command = [sys.executable, "-I", "-S", "-c", STRESSORS, *words, str(os.getpid())]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert started.stdout is not None and started.stderr is not None
    told = started.stdout.read(count)
    if len(told) == count:
        return started
    os.killpg(started.pid, signal.SIGKILL)
    _, complaint = started.communicate()
    raise OSError((complaint.decode().strip().splitlines() or ["it has ended"])[-1])


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]+)([KMG]?i?B)", text)
    if found is None or found[2] not in _UNITS:
        raise OSError(f"the size {text} is not possible here")
    return int(found[1]) * _UNITS[found[2]]
