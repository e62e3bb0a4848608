"""Activity: what the processes of a job write, read and compute, as the kernel counts it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from chaoskit.capabilities import Activity
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.records.ranks import Rank

_TICK = os.sysconf("SC_CLK_TCK")
#: What the harness itself writes, or has the ranks write.
_OURS = ("harness", "stack-")


def said(run_dir: Path) -> int:
    """How many bytes are in the records of a run, without what is written by or for the harness."""
    return _bytes_in(run_dir / "events")


def _bytes_in(place: Path) -> int:
    total = 0
    for directory, _, names in os.walk(place):
        for name in names:
            if not name.startswith(_OURS):
                with suppress(OSError):
                    total += os.stat(os.path.join(directory, name)).st_size
    return total


def measure(run_id: str, run_dir: Path, ranks: Iterable[Rank], launchers: Iterable[Process]) -> Activity:
    """What the processes of a run have used by now. A plain process that has not said who it is counts as another."""
    own = {Process(rank.pid, rank.start): rank.rank for rank in ranks}
    alive = {rank: process for process, rank in own.items() if processes.state(process) != "gone"}
    others = {*processes.marked(run_id, run_dir=run_dir)} - {*own, *launchers}
    return Activity(
        ranks={rank: _processor_seconds(process) for rank, process in alive.items()},
        others=sum(_processor_seconds(process) for process in others),
        moved=sum(_bytes_moved(process) for process in (*alive.values(), *others)),
        printed=printed(run_dir),
    )


def printed(run_dir: Path) -> int:
    """How many bytes the job of a run has printed."""
    return _bytes_in(run_dir / "logs")


def _processor_seconds(process: Process) -> float:
    """Of all its threads and of the children that it has waited for."""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
        return sum(int(ticks) for ticks in stat[11:15]) / _TICK
    except (OSError, ValueError, IndexError):
        return 0.0


def _bytes_moved(process: Process) -> int:
    """What it has read and written, in files, pipes and, as far as `read` and `write` do it, sockets."""
    try:
        lines = Path(f"/proc/{process.pid}/io").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar", "wchar")))
