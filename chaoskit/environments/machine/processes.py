"""Processes of this machine: identify them, ask for their state, send signals to exactly them.

A pid is used again once its process has ended, so every function takes a `Process`: the pid and the start time.
Signals go through a pidfd, which refers to the one process that was checked.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaoskit.capabilities import ProcessRef

#: Seconds for an exec to set up its variables. Fields of `_stat`: the size of the memory, where it has code, and where
#: it has variables.
_EXEC_LIMIT = 1.0
_MEMORY, _CODE, _BEGIN, _END = 20, 23, 47, 48


@dataclass(frozen=True)
class Process:
    """A process of this machine, by its pid and its start time in clock ticks, which a reused pid does not share."""

    pid: int
    started: int

    @property
    def ref(self) -> ProcessRef:
        """The opaque reference for those outside this environment."""
        return ProcessRef(self.pid, str(self.started))

    @classmethod
    def of(cls, ref: ProcessRef) -> Process:
        """The process that `ref` refers to."""
        return cls(ref.pid, int(ref.key))


def identify(pid: int) -> Process | None:
    """The process that has `pid` now, or None. A zombie counts."""
    stat = _stat(pid)
    return Process(pid, int(stat[19])) if stat else None


def parent(pid: int) -> int | None:
    """The pid of the parent of the process that has `pid` now; None if there is none."""
    stat = _stat(pid)
    return int(stat[1]) if stat else None


def started_by(pids: Iterable[int], run_id: str) -> list[Process]:
    """The living processes of the run that these have started, and those in turn."""
    above, every = set(pids), marked(run_id)
    found: list[Process] = []
    while new := [each for each in every if each.pid not in above and parent(each.pid) in above]:
        found += new
        above |= {each.pid for each in new}
    return found


def wakings(process: Process) -> int:
    """How often the process has gone to sleep by itself since it began; 0 if it has ended."""
    try:
        text = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    if state(process) == "gone":
        return 0
    lines = (line.split(":") for line in text.splitlines() if line.startswith("voluntary_ctxt_switches"))
    return next((int(value) for _, value in lines), 0)


def program(process: Process) -> str:
    """What tells the program that a process runs from others that it ran before (exec): where its memory has its code,
    its stack and its arguments. "" if it has ended."""
    stat = _stat(process.pid)
    return " ".join([*stat[_CODE : _CODE + 3], *stat[_BEGIN - 2 : _END]]) if stat else ""


def state(process: Process) -> Literal["running", "stopped", "gone"]:
    """The state of the process. `gone` means that none of its threads runs any more, reaped or not."""
    stat = _stat(process.pid)
    if stat is None or int(stat[19]) != process.started:
        return "gone"
    # A main thread may end before the others: then the process lives on, although ps calls it defunct.
    if stat[0] in "ZXx" and int(stat[17]) <= 1:
        return "gone"
    return "stopped" if stat[0] in "Tt" else "running"


def send(process: Process, signum: int) -> bool:
    """Send the signal. Returns False if the process has already ended. Raises PermissionError if it is another
    user's.
    """
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if state(process) == "gone":
            return False
        signal.pidfd_send_signal(fd, signum)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)


def handles(process: Process, signum: int) -> bool:
    """Whether the process has a handler for the signal; False where it has ended. One without may die of it."""
    return bool(_masks(process.pid).get("SigCgt", 0) & 1 << (signum - 1)) and state(process) != "gone"


def delivered(process: Process, signum: int) -> bool:
    """Whether the process has received the signal: it has ended, or it handles the signal and none is pending."""
    masks = _masks(process.pid)
    # Asked after the reading, so that what was read is known to have been this process.
    if state(process) == "gone":
        return True
    bit = 1 << (signum - 1)
    pending = masks.get("SigPnd", 0) | masks.get("ShdPnd", 0)
    return bool(masks.get("SigCgt", 0) & bit) and not pending & bit


def marked(run_id: str, *, run_dir: Path | None = None, node: str | None = None) -> list[Process]:
    """The living processes of our own user whose environment has `CHAOSKIT_ID=<run_id>` (and `run_dir` as
    CHAOSKIT_RUN, and `node` as CHAOSKIT_NODE, if given), except the calling one.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        process = identify(int(name))
        try:
            mine = os.stat(f"/proc/{name}").st_uid == os.getuid()
            environ = _environment(int(name)) if mine else b""
        except OSError:
            continue  # gone meanwhile
        entries = environ.split(b"\0")
        if process is None or f"CHAOSKIT_ID={run_id}".encode() not in entries:
            continue
        if node is not None and f"CHAOSKIT_NODE={node}".encode() not in entries:
            continue
        runs = [entry[13:].decode(errors="replace") for entry in entries if entry.startswith(b"CHAOSKIT_RUN=")]
        if run_dir is None or os.path.realpath(run_dir) in map(os.path.realpath, runs):
            found.append(process)
    return found


def end_marked(run_id: str, *, run_dir: Path | None = None, limit: float = 10.0) -> list[Process]:
    """SIGKILL the processes that `marked` finds until it finds none, for at most `limit` seconds; returns them."""
    ended: list[Process] = []
    deadline = time.monotonic() + limit
    while (found := marked(run_id, run_dir=run_dir)) and time.monotonic() < deadline:
        killed = [process for process in found if send(process, signal.SIGKILL)]
        ended += [process for process in killed if process not in ended]
        wait_gone(killed, timeout=min(1.0, max(0.0, deadline - time.monotonic())))
    return ended


def wait_gone(processes: Iterable[Process], *, timeout: float) -> bool:
    """Wait until all of them have ended, at most `timeout` seconds. Returns whether they have."""
    deadline = time.monotonic() + timeout
    for process in processes:
        try:
            fd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            if state(process) != "gone":
                poll = select.poll()
                poll.register(fd, select.POLLIN)
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    return False
        finally:
            os.close(fd)
    return True


def _masks(pid: int) -> dict[str, int]:
    """The signals that a process handles and that are pending, as bits; empty if it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name: int(fields[name], 16) for name in ("SigPnd", "ShdPnd", "SigCgt") if name in fields}


def _environment(pid: int) -> bytes:
    """The variables that the process was started with, each with a zero byte at its end. Raises OSError.

    In the middle of an exec they are empty for an instant; a busy machine makes it long. A program that has replaced
    another one is not passed over for that: what has memory and no variables yet is read again.
    """
    deadline = time.monotonic() + _EXEC_LIMIT
    while not (environ := Path(f"/proc/{pid}/environ").read_bytes()) and time.monotonic() < deadline:
        stat = _stat(pid)
        if stat is None or stat[0] in "ZXx" or stat[_MEMORY] == "0" or "0" != stat[_BEGIN] == stat[_END]:
            break  # it has ended, is of the kernel, or was given none
        time.sleep(0.001)
    return environ


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (the state) on."""
    try:
        # The name in parentheses may hold anything, parentheses and blanks included.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return None
