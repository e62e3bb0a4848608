"""The keeper: a process between harness and job. It ensures that the job never outlives the harness.

A script (`python -I -S keeper.py RUN_ID`, standard library only) in a session of its own. It is a *subreaper*:
every orphan among its descendants becomes its child, so neither a double fork nor `setsid` escapes it. It speaks
JSON lines on its standard input, a socket. It receives `{"command", "env", "cwd", "log", "tmp", "host", "groups",
"grace"}`, answers `{"started": pid, "starttime": ticks}` or `{"failed": message}`, and, once the command has ended
and its survivors were killed, `{"ended": code, "survivors": [...]}`. On `stop` it kills everything and answers
`{"stopped": [...], "code": code}`; on `leave` it kills everything and exits. When the harness dies, it kills
everything, removes `tmp` and exits.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_PR_SET_CHILD_SUBREAPER, _IN_CREATE = 36, 0x100
_CONTROL = 0
_SHM = "/dev/shm"
#: How many killed processes are described.
_DESCRIBED_AT_MOST = 64


class Keeper:
    """One command and all its descendants. `begin` starts the ordered command and returns its pid. `harness` is the
    pid of the process that the command must not outlive.
    """

    def __init__(self, *, harness: int, begin: Callable[[dict[str, Any]], int]) -> None:
        self._begin = begin
        # Handlers, not SIG_IGN: exec resets a handler to the default, so the job starts with default signals.
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for signum in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(signum, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        self._inotify = _watch_shm(libc)
        # The socket alone would not do: a fork of the harness may hold its other end open.
        self._harness = os.pidfd_open(harness)
        self._poll = select.poll()
        for fd in (_CONTROL, self._harness, self._woken, self._inotify):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)
        self._heard = b""
        self._seen: set[int] = set()
        self._shm: set[str] = set()
        self._pid = 0
        self._code: int | None = None

    def let_go(self) -> None:
        """In a fork that becomes the command: close the keeper's own files."""
        signal.set_wakeup_fd(-1)
        for fd in (self._harness, self._woken, self._wake, self._inotify):
            if fd >= 0:
                os.close(fd)

    def run(self) -> None:
        """Keep one command until it has ended and the harness has left."""
        words: list[str] = []
        while not words:
            words = self._listen(None)
        if words[0] == "":
            return
        order = json.loads(words[0])
        if self._start(order):
            self._keep(order)

    def _start(self, order: dict[str, Any]) -> bool:
        try:
            self._pid = self._begin(order)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            _say(failed=str(error))
            return False
        stat = _stat(self._pid)
        _say(started=self._pid, starttime=int(stat[19]) if stat else 0)
        return True

    def _keep(self, order: dict[str, Any]) -> None:
        reported = False
        deadline = None
        while True:
            left = self._reap()
            if self._code is not None and not reported:
                deadline = deadline or time.monotonic() + float(order["grace"])
                if not left or time.monotonic() >= deadline:
                    _say(ended=self._code, survivors=self._end_all())
                    reported = True
            waits = None if reported or deadline is None else max(0.0, deadline - time.monotonic())
            for word in self._listen(waits):
                ended = self._end_all()
                if word == "stop":
                    _say(stopped=ended, code=-signal.SIGKILL if self._code is None else self._code)
                    reported = True
                    continue
                if word != "leave" and order["tmp"]:
                    import shutil  # slow to import, and needed by no run that goes well

                    shutil.rmtree(order["tmp"], ignore_errors=True)
                return

    def _listen(self, timeout: float | None) -> list[str]:
        """Wait for any event. Returns the words of the harness, with "" at the end if it has died."""
        ready = [fd for fd, _ in self._poll.poll(None if timeout is None else timeout * 1000)]
        words: list[str] = []
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._inotify in ready:
            self._note_shm()
        if _CONTROL in ready:
            try:
                data = os.read(_CONTROL, 1 << 16)
            except ConnectionError:
                data = b""
            *lines, self._heard = (self._heard + data).split(b"\n")
            words += [line.decode() for line in lines]
            if not data:
                words.append("")
        elif self._harness in ready:
            words.append("")
        return words

    def _reap(self) -> bool:
        """Reap every child that has ended. Returns whether any is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._seen.add(pid)
            if pid == self._pid:
                self._code = os.waitstatus_to_exitcode(status)

    def _end_all(self) -> list[dict[str, Any]]:
        """Kill children and their process groups until no descendant is left; returns what was killed. Children
        keep their pids until they are reaped, so nobody else is hit.
        """
        ended: dict[int, dict[str, Any] | None] = {}
        beyond: set[int] = set()
        own_group = os.getpgrp()
        while self._reap():
            children, descendants = _descendants(os.getpid())
            self._seen.update(children, descendants)
            for pid in descendants:
                if pid not in ended and len(ended) < _DESCRIBED_AT_MOST:
                    ended[pid] = _describe(pid)
            for child in children:
                try:
                    group = os.getpgid(child)
                    if group != own_group:
                        os.killpg(group, signal.SIGKILL)
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # a group of zombies
                except PermissionError:
                    beyond.add(child)  # it has become another user's, such as sudo
            if beyond.issuperset(children):
                break
            wake = select.poll()
            wake.register(self._woken, select.POLLIN)
            if wake.poll(100):
                os.read(self._woken, 4096)
        if self._inotify >= 0:
            self._note_shm()
        for name in self._shm:
            with suppress(OSError):  # where its owner has removed it, as it should
                os.unlink(f"{_SHM}/{name}")
        self._shm.clear()
        return [told for told in ended.values() if told is not None]

    def _note_shm(self) -> None:
        """Remember the shared memory of torch (`torch_<pid>_...`, `sem.torch_<pid>_...`) that descendants made."""
        data = b""
        while True:
            try:
                data = data or os.read(self._inotify, 1 << 16)
            except BlockingIOError:
                return
            size = struct.unpack_from("iIII", data)[3]
            name = data[16 : 16 + size].rstrip(b"\0").decode(errors="replace")
            data = data[16 + size :]
            family, _, rest = name.removeprefix("sem.").partition("_")
            number = rest.partition("_")[0]
            if family == "torch" and number.isdecimal() and self._is_ours(int(number)):
                self._shm.add(name)

    def _is_ours(self, pid: int) -> bool:
        stat = _stat(pid)
        if stat is None:
            return pid in self._seen
        while stat is not None and pid > 1:
            if pid == os.getpid():
                return True
            pid = int(stat[1])
            stat = _stat(pid)
        return False


def execute(order: dict[str, Any]) -> int:
    """Start a command in a fresh process; returns its pid. Raises OSError or ValueError if it cannot be started."""
    with open(order["log"], "ab") as log:
        command = subprocess.Popen(
            order["command"],
            env=order["env"],
            cwd=order["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=_move(order) if order.get("host") or order.get("groups") else None,
        )
    command.returncode = 0  # the keeper reaps it, with everything else: Popen must not try
    return command.pid


def _move(order: dict[str, Any]) -> Callable[[], None]:
    """Makes a child join the control groups of an order and enter its host, before it becomes the command."""
    import runpy  # only few jobs have hosts or groups

    here = os.path.dirname(os.path.abspath(__file__))
    enter = runpy.run_path(os.path.join(here, "host.py"))["enter"]
    join = runpy.run_path(os.path.join(here, "control_groups.py"))["join"]

    def move() -> None:
        join(order.get("groups") or ())
        if order.get("host"):
            enter(order["host"], order["cwd"])

    return move


def _watch_shm(libc: ctypes.CDLL) -> int:
    """An inotify of new shared memory, or -1 if none is available (then killed processes leave theirs behind)."""
    fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd >= 0 and libc.inotify_add_watch(fd, _SHM.encode(), _IN_CREATE) < 0:
        os.close(fd)
        return -1
    return fd


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on (state, parent, group ...), None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return None


def _descendants(root: int) -> tuple[list[int], list[int]]:
    """The children of `root`, zombies included, and all its living descendants."""
    offspring: dict[int, list[int]] = {}
    living: set[int] = set()
    for name in os.listdir("/proc"):
        stat = _stat(int(name)) if name.isdecimal() else None
        if stat is not None:
            offspring.setdefault(int(stat[1]), []).append(int(name))
            if stat[0] not in "ZXx":
                living.add(int(name))
    found: list[int] = []
    ahead = [root]
    while ahead:
        below = offspring.get(ahead.pop(), [])
        found += below
        ahead += below
    return offspring.get(root, []), sorted(living.intersection(found))


def _describe(pid: int) -> dict[str, Any] | None:
    """The pid, rank and command line, for people; None for a process of ours."""
    rank, command = None, ""
    with suppress(OSError):  # gone meanwhile, or not ours to read: the pid alone is worth telling
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(1000).replace(b"\0", b" ").decode(errors="replace").strip()
        with open(f"/proc/{pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                name, _, value = entry.partition(b"=")
                if name == b"CHAOSKIT_FORKER":
                    return None
                if name == b"RANK" and value.isdigit():
                    rank = int(value)
    return {"pid": pid, "rank": rank, "command": command}


def _say(**report: Any) -> None:
    data = json.dumps(report).encode() + b"\n"
    while data:
        try:
            data = data[os.write(_CONTROL, data) :]
        except ConnectionError:
            return  # the harness is dead, which the next look at the socket tells


if __name__ == "__main__":
    Keeper(harness=os.getppid(), begin=execute).run()
