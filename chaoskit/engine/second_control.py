"""`SecondControl`: runs the second control of a job beside the first, where the machine has room for both.

It begins once the first has trained for a while and has made a save. By then the ranks of the first have imported what
training and saving need, so the second can be launched warm, and windows save time for the job. It runs in a separate
process, which ends together with this one.
"""

from __future__ import annotations

import glob
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.fresh_interpreter import start_module
from chaoskit.engine.record_readers import record_files
from chaoskit.engine.windows.keeping import PAY_FROM, training_seconds
from chaoskit.engine.windows.window_watch import next_look
from chaoskit.environments.cgroups.counters import memory_available
from chaoskit.environments.launch.mode import Mode
from chaoskit.job import Job

#: The devices of accelerators: two runs of a job may not fit into their memory.
ACCELERATORS = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/accel*", "/dev/davinci*")
#: The time between two looks at the record of the first control: see `next_look`.
LOOK_EVERY, TIMES = 1.0, 100.0
#: The second run may take this share of the memory that is free while the first one trains.
SHARE = 0.5
#: Seconds in which an interrupted run must end.
ENDS_WITHIN = 60.0
#: Flags and variables by which the ranks of two launches of one command would meet each other.
_MEETING = ("rdzv-endpoint", "rdzv_endpoint", "master-port", "master_port", "rdzv-id", "rdzv_id")
_VARIABLES = ("MASTER_PORT", "PET_MASTER_PORT", "PET_RDZV_ENDPOINT", "PET_RDZV_ID")


class SecondControl:
    """Watches the first control in `run_dir` (see `Watch`). If it is `possible`, and there is room, starts the second
    with the mode that `mode` returns, and calls `started`. The process calls `run` with the mode; `run` can be pickled,
    and returns the status of the run."""

    def __init__(
        self,
        run_dir: Path,
        *,
        mode: Callable[[], Mode],
        run: Callable[[Mode], str],
        started: Callable[[], None],
        possible: bool,
    ) -> None:
        self.next_look = time.monotonic() + PAY_FROM if possible else math.inf
        self.mode: Mode | None = None
        self._run_dir = run_dir
        self._mode = mode
        self._run = run
        self._started = started
        self._files = record_files(keeps=True)
        self._process: subprocess.Popen[bytes] | None = None

    def look(self, now: float) -> bool:
        """Start the second control, if it is time. Never ends the first one."""
        if now >= self.next_look and self.mode is None:
            reference = self._reference()
            pids = [own.pid for own in reference.controls[0].incarnations[0].ranks.values()] if reference else []
            if reference is None or not _is_time(reference):
                self.next_look = next_look(now, every=LOOK_EVERY, times=TIMES)
            else:
                self.next_look = math.inf
                if has_room(pids):
                    self._start()
        return False

    def _reference(self) -> Reference | None:
        """What the first control has recorded so far; None while not all of its ranks are there."""
        history = History.read(self._run_dir, files=self._files)
        ranks = history.incarnations[0].ranks if history.incarnations else {}
        return Reference((history,)) if 0 in ranks and len(ranks) == history.world_size else None

    def _start(self) -> None:
        mode = self._mode()
        with suppress(OSError):
            # Ctrl-C must not reach it twice: this process ends it.
            process = start_module(__name__, own_session=True)
            self._process, self.mode = process, mode
            assert process.stdin is not None
            process.stdin.write(pickle.dumps((self._run, mode)))
            process.stdin.flush()
            self._started()

    def status(self) -> str:
        """Wait for the end of the second control; its status, or an empty text if its process failed."""
        if self._process is None:
            return ""
        assert self._process.stdout is not None
        said = self._process.stdout.read().decode(errors="replace")
        self.stop()
        return said

    def __enter__(self) -> SecondControl:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the second control, if it still runs, with every process of it."""
        process, self._process, self.mode = self._process, None, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        with suppress(OSError):
            process.stdin.close()  # which interrupts it
        try:
            process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()  # what it started ends with it
            process.wait()
        process.stdout.close()


def _is_time(first: Reference) -> bool:
    """Whether the job has trained for so long that windows save time, and has made a save."""
    ranks = first.controls[0].incarnations[0].ranks.values()
    # A rank records its imports one step after its first save.
    saved = first.saves and min(len(own.steps) for own in ranks) >= first.saves[0] + 2
    return bool(saved) and training_seconds(first) >= PAY_FROM


def meets_alone(job: Job) -> bool:
    """Whether the ranks of a second launch of the job, on the same machine, surely meet at a port of their own."""
    words = " ".join(job.words())
    given = {**os.environ, **job.env}
    return not any(flag in words for flag in _MEETING) and not any(name in given for name in _VARIABLES)


def has_room(pids: list[int]) -> bool:
    """Whether the machine has a core for each rank of this run and of a second one, and memory for the second."""
    if any(map(glob.glob, ACCELERATORS)) or 2 * len(pids) > len(os.sched_getaffinity(0)):
        return False
    return sum(map(_resident, pids)) <= SHARE * memory_available()


def _resident(pid: int) -> int:
    """The bytes of a process that are in memory; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _serve() -> None:
    """Run what the standard input says; the status goes to the standard output. The end of the input interrupts the
    run."""
    run, mode = pickle.load(sys.stdin.buffer)  # from `_start`, through a pipe that nobody else can write to
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def watch() -> None:
        if not os.read(0, 1):
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()
    out, sys.stdout = sys.stdout, sys.stderr
    with suppress(KeyboardInterrupt):
        out.write(run(mode))
        out.flush()


if __name__ == "__main__":
    _serve()
