"""Processes of this machine: who they are, what they do, how to strike them and no other.

A pid is used again once its process is gone, so every function takes a `Process`: the pid and the start time.
Signals go through a pidfd, which holds on to the one process that was checked.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from chaoskit.capabilities import Process


def identify(pid: int) -> Process | None:
    """The process that has `pid` now; None if there is none (a zombie still is one)."""
    stat = _stat(pid)
    return Process(pid, int(stat[19])) if stat else None


def state(process: Process) -> Literal["running", "stopped", "gone"]:
    """What it is doing. Gone means that none of its threads runs any more, reaped or not."""
    stat = _stat(process.pid)
    if stat is None or int(stat[19]) != process.started:
        return "gone"
    # A main thread may end before the others: then the process lives on, although ps calls it defunct.
    if stat[0] in "ZXx" and int(stat[17]) <= 1:
        return "gone"
    return "stopped" if stat[0] in "Tt" else "running"


def send(process: Process, signum: int) -> bool:
    """Send the signal; False if the process was already gone. Raises PermissionError if it is another user's."""
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


def delivered(process: Process, signum: int) -> bool:
    """Whether the process has taken the signal: it is gone, or it catches the signal and none is pending."""
    try:
        text = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        text = ""
    # Asked after the reading, so that what was read is known to have been this process.
    if state(process) == "gone":
        return True
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    bit = 1 << (signum - 1)
    masks = {name: int(fields.get(name, "0"), 16) for name in ("SigPnd", "ShdPnd", "SigCgt")}
    return bool(masks["SigCgt"] & bit) and not (masks["SigPnd"] | masks["ShdPnd"]) & bit


def marked(run_id: str, *, run_dir: Path | None = None, node: str | None = None) -> list[Process]:
    """Our own living processes that carry `CHAOSKIT_ID=<run_id>` (and whose CHAOSKIT_RUN is `run_dir`, and their
    CHAOSKIT_NODE `node`, if given).

    The calling process is left out.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        process = identify(int(name))
        try:
            mine = os.stat(f"/proc/{name}").st_uid == os.getuid()
            environ = Path(f"/proc/{name}/environ").read_bytes() if mine else b""
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
    """SIGKILL the processes that `marked` finds until it finds none, for `limit` seconds at most; those struck."""
    ended: list[Process] = []
    deadline = time.monotonic() + limit
    while (found := marked(run_id, run_dir=run_dir)) and time.monotonic() < deadline:
        struck = [process for process in found if send(process, signal.SIGKILL)]
        ended += [process for process in struck if process not in ended]
        wait_gone(struck, timeout=min(1.0, max(0.0, deadline - time.monotonic())))
    return ended


def wait_gone(processes: Iterable[Process], *, timeout: float) -> bool:
    """Wait until all of them are gone, for `timeout` seconds at most; whether they are."""
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


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (the state) on."""
    try:
        # The name in parentheses may hold anything, parentheses and blanks included.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return None
