"""How long threads have run, and how long they have waited for a processor, as the kernel counts it. Standard library
only: agents use it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaoskit.environments.machine import processes

_TICK = os.sysconf("SC_CLK_TCK")


def of_processes(pids: Iterable[int]) -> dict[str, Any]:
    """By thread (`PID/TID`) the seconds for which it has run and those for which it has waited; `at`, the time now, and
    `age`, the seconds since the first of the processes began. Without a count, a kernel has no threads."""
    threads: dict[str, tuple[float, float]] = {}
    began: list[float] = []
    for pid in pids:
        if (process := processes.identify(pid)) is None:
            continue
        began.append(process.started / _TICK)
        with suppress(OSError):  # it has ended
            for tid in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError):
                    ran, waited, _ = Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()
                    threads[f"{pid}/{tid}"] = int(ran) / 1e9, int(waited) / 1e9
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {"threads": threads, "at": now, "age": max(0.0, now - min(began)) if began else 0.0}


def entered() -> dict[int, int]:
    """The living processes that somebody outside of this container has put into it, with all that they started: they
    descend from a process that has no parent here, and is not the first. By pid, their `oom_score_adj`."""
    parents = {
        int(name): parent
        for name in os.listdir("/proc")
        if name.isdecimal() and (parent := processes.parent(int(name))) is not None
    }
    found = [pid for pid, parent in parents.items() if parent == 0 and pid != 1]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    scores: dict[int, int] = {}
    for pid in found:
        process = processes.identify(pid)
        if process is None or processes.state(process) == "gone":
            continue
        with suppress(OSError, ValueError):  # it has ended
            scores[pid] = int(Path(f"/proc/{pid}/oom_score_adj").read_text())
    return scores
