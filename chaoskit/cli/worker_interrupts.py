"""`WorkerInterrupts`: an interrupted session of pytest-xdist waits until its workers have cleaned up.

By itself it tells its workers to end, interrupts them five seconds later, and kills them after five more. A run in a
cluster may need longer until nothing of it is left.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn, Protocol

import pytest

#: Seconds for workers to clean up: less than the grace of a pod in which chaoskit runs.
LIMIT = 100.0


class Worker(Protocol):
    """What pytest-xdist gives of a worker: its process is behind `gateway`, and `channel` closes when its tests have
    ended."""

    gateway: Any
    channel: Any


class WorkerInterrupts:
    """A pytest plugin, for the session and for its workers. A second interrupt of the session does not wait."""

    def __init__(self, *, limit: float = LIMIT) -> None:
        self._limit = limit
        self._workers: list[Worker] = []
        self._interrupted = False

    def pytest_configure(self, config: pytest.Config) -> None:
        """In a worker: clean up undisturbed after the first interrupt. It comes from the terminal and from the
        session, or because the session is gone."""
        if _is_worker(config):
            signal.signal(signal.SIGINT, _interrupt_once)
            # pytest captures the descriptor later, and keeps a duplicate of it.
            told = os.getppid(), os.fstat(2)
            threading.Thread(target=_outlive_nobody, args=told, daemon=True).start()

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """In a worker: nothing is left to interrupt."""
        if _is_worker(config):
            signal.signal(signal.SIGINT, _ignore)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Worker) -> None:
        """A worker is there. One on another machine (--tx ssh=...) has no process here."""
        if node.gateway.spec.popen:
            self._workers.append(node)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self._interrupted = excinfo.type is KeyboardInterrupt

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Before pytest-xdist ends the workers."""
        if not self._interrupted:
            return
        going = [worker for worker in self._workers if not worker.channel.isclosed()]
        for worker in going:
            worker.gateway._io.popen.send_signal(signal.SIGINT)
        deadline = time.monotonic() + self._limit
        for worker in going:
            channel = worker.channel
            with suppress(channel.RemoteError, channel.TimeoutError, EOFError):
                channel.waitclose(max(0.0, deadline - time.monotonic()))


def _outlive_nobody(session: int, stream: os.stat_result) -> None:
    """Wait until the process of the session has ended; then interrupt this worker, which says nothing more on `stream`:
    nobody wants its results, and it would tell no more than that it cannot hand them over."""
    with suppress(OSError):  # it is gone already
        gone = select.poll()
        gone.register(os.pidfd_open(session), select.POLLIN)
        gone.poll()
    null = os.open(os.devnull, os.O_WRONLY)
    for number in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # it was that of the listing
            if os.path.samestat(os.fstat(number), stream):
                os.dup2(null, number)
    os.kill(os.getpid(), signal.SIGINT)


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is one, in the thread that gets signals."""
    return hasattr(config, "workerinput") and threading.current_thread() is threading.main_thread()


def _interrupt_once(signum: int, frame: object) -> NoReturn:
    signal.signal(signal.SIGINT, _ignore)
    raise KeyboardInterrupt


def _ignore(signum: int, frame: object) -> None:
    """Does nothing. It is a function, because programs that a worker starts would inherit SIG_IGN."""
