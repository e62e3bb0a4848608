"""The forker: a single-threaded child of a warm torchrun that forks the ranks for the elastic agent.

The agent has threads, and a fork of it may hang; the forker was forked before they existed. A rank is created in
two steps: the forker's child forks it and exits, and the agent, which is a subreaper at that moment, inherits it.
So a rank is the agent's own child, with the pid that the agent knows, and only the agent gets its exit status.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from chaoskit.environments.launch import fresh, roles, surroundings
from chaoskit.environments.launch.program import Program, read
from chaoskit.errors import CannotWarm

_PR_SET_CHILD_SUBREAPER = 36
_LARGEST = 4 << 20
#: Seconds of one wait: `poll` takes no time over 24.8 days.
_LONGEST = 3600.0
_HANDLER = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"

_libc = ctypes.CDLL(None, use_errno=True)


class Forker:
    """The agent's end of it. Made while the agent is still single-threaded; the child takes up its role there."""

    def __init__(self, origin: roles.ProcessOrigin, *, run_id: str) -> None:
        self._env = dict(os.environ)  # the parent's, with what its imports made of it
        self._turn = threading.Lock()
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
        if os.fork() == 0:
            self._line.close()
            raise roles.Become(lambda: serve(theirs, origin, run_id))
        theirs.close()

    def start(self, args: Sequence[str], env: Mapping[str, str], *, stdout: int, stderr: int) -> int | None:
        """The pid of a child of ours that runs this command; None where only a fresh process can.

        Raises OSError where the forker is gone.
        """
        cwd = os.getcwd()
        try:
            program = read(args, interpreter=sys.executable, env=env, cwd=cwd)
        except CannotWarm:
            return None
        if surroundings.differences(env, self._env, cwd):
            return None
        order = json.dumps({"program": program.to_json(), "env": dict(env), "cwd": cwd}).encode()
        with self._turn:
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._line, [order], [0, stdout, stderr])
                said = self._line.recv(64)
            finally:
                _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        if not said:
            raise ConnectionError("the forker of the ranks is gone: somebody killed it")
        return int(said)


class ForkedRank(subprocess.Popen[bytes]):
    """What the agent takes for the process that it started, which it is in everything but the beginning."""

    def __init__(self, args: Sequence[str], *, fork: Callable[[int, int], int], **options: Any) -> None:
        self._fork = fork
        super().__init__(args, **options)

    def _execute_child(self, *given: Any) -> None:
        # (args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell, p2cread,
        # p2cwrite, c2pread, c2pwrite, errread, errwrite, ...), the same since Python 3.2; -1 is what is inherited.
        stdout, stderr = given[13], given[15]
        self.pid = self._fork(stdout if stdout >= 0 else 1, stderr if stderr >= 0 else 2)
        self._child_created = True

    def wait(self, timeout: float | None = None) -> int:
        """See `Popen`, which looks for the end less and less often, at last every 50 ms."""
        if timeout is not None and self.returncode is None:
            begun = time.monotonic()
            with suppress(OSError):
                _await_end(self.pid, timeout)
            timeout = max(0.0, timeout - (time.monotonic() - begun))
        return super().wait(timeout)


def _await_end(pid: int, timeout: float) -> None:
    """Wait until a child of ours has ended, at most so many seconds. Raises OSError if that cannot be told."""
    fd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(min(timeout, _LONGEST) * 1000)
    finally:
        os.close(fd)


def serve_agent(forker: Forker) -> None:
    """Have torch's elastic agent, in this process, get its ranks from the forker; from nowhere else where it cannot."""
    handler: Any = importlib.import_module(_HANDLER).SubprocessHandler
    afresh = handler._popen

    def _popen(self: Any, args: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        def fork(stdout: int, stderr: int) -> int:
            pid = forker.start(args, env, stdout=stdout, stderr=stderr)
            if pid is None:
                raise CannotWarm(args[0])
            return pid

        with suppress(CannotWarm, OSError):
            return ForkedRank(args, fork=fork, env=env, stdout=self._stdout, stderr=self._stderr)
        process: subprocess.Popen[bytes] = afresh(self, args, env)
        return process

    handler._popen = _popen


def serve(line: socket.socket, origin: roles.ProcessOrigin, run_id: str) -> None:
    """The forker's role: until the agent is gone."""
    os.setsid()  # what is sent to the agent's group is not meant for us
    mark = {"CHAOSKIT_ID": run_id, "CHAOSKIT_FORKER": "1"}
    fresh.name(("chaoskit", "forks the ranks of", run_id), env=mark)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    while True:
        order, fds, *_ = socket.recv_fds(line, _LARGEST, 3)
        if not order:
            roles.leave()
        _bear(line, json.loads(order), fds, origin)
        for fd in fds:
            os.close(fd)


def _bear(line: socket.socket, order: Mapping[str, Any], fds: Sequence[int], origin: roles.ProcessOrigin) -> None:
    """Fork a rank, and let it begin once it is the agent's child and the agent knows it."""
    tells, told = os.pipe()
    waits, go = os.pipe()
    between = os.fork()
    if between == 0:
        if os.fork() != 0:
            roles.leave()
        os.setsid()  # as torchrun starts its ranks
        os.write(told, str(os.getpid()).encode())
        for fd in (tells, told, go):
            os.close(fd)
        begun = os.read(waits, 1)
        os.close(waits)
        if not begun:  # the forker was killed, and the agent may count on us
            os.kill(os.getpid(), signal.SIGKILL)
        line.close()
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        for fd in fds:
            os.close(fd)
        program = Program.from_json(order["program"])
        env, cwd = order["env"], order["cwd"]
        raise roles.Become(lambda: roles.be(program, env=env, cwd=cwd, origin=origin))
    os.close(told)
    os.close(waits)
    os.waitpid(between, 0)  # from now on the rank is the agent's
    line.send(os.read(tells, 64))
    os.write(go, b"1")
    os.close(tells)
    os.close(go)
