"""Stacks: what each rank is executing, asked of the ranks themselves.

The probe registers `faulthandler` for a signal, with a file of its own in the run's logs; the handler runs even while
the rank hangs in native code. A process without the handler would die of the signal, and is not asked: a
rank that is still starting, or a launcher.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.records.ranks import Rank
from chaoskit.probe.session import stack_file

_LOOK_EVERY = 0.02
_SETTLED_AFTER = 3


def collect(run_dir: Path, ranks: Iterable[Rank], *, timeout: float = 2.0) -> dict[int, str]:
    """The stacks of all threads of each living rank, by rank.

    For a stopped rank, which cannot answer, the text says that it is stopped. A rank that does not answer in
    `timeout` seconds, or does not handle the signal, is left out.
    """
    told: dict[int, str] = {}
    asked: dict[int, tuple[Path, int]] = {}
    for rank in ranks:
        process = Process(rank.pid, rank.start)
        state = processes.state(process)
        if state == "stopped":
            told[rank.rank] = "stopped (SIGSTOP)"
        elif state == "running" and rank.stack_signal is not None and processes.handles(process, rank.stack_signal):
            path = run_dir / "logs" / stack_file(rank.pid, rank.node)
            before = _size(path)
            if processes.send(process, rank.stack_signal):
                asked[rank.rank] = path, before
    deadline = time.monotonic() + timeout
    quiet: dict[int, tuple[int, int]] = dict.fromkeys(asked, (0, 0))
    while asked and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY)  # nothing says that a dump is complete, except that no more comes
        for number, (path, before) in list(asked.items()):
            size = _size(path)
            quiet[number] = (size, quiet[number][1] + 1 if size == quiet[number][0] else 0)
            if size > before and quiet[number][1] >= _SETTLED_AFTER:
                told[number] = path.read_bytes()[before:].decode(errors="replace")
                del asked[number]
    return dict(sorted(told.items()))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
