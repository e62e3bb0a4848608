"""`KeptLaunch`: the harness's end of a launch; a keeper is at the other end."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from chaoskit.environments.launch.launcher import LaunchEnd, WaitingKeeper
from chaoskit.environments.launch.lines import LineChannel
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process
from chaoskit.errors import ChaoskitError, UsageError

#: Seconds for what takes milliseconds on a healthy machine.
_START_LIMIT = 30.0
_STOP_LIMIT = 60.0


def launch_with(keep: Callable[[socket.socket], WaitingKeeper]) -> KeptLaunch:
    """A launch whose keeper `keep` starts with the given end of a line. Raises what `keep` raises, and UsageError if
    the command cannot be started."""
    ours, theirs = socket.socketpair()
    keeper = None
    try:
        with theirs:
            keeper = keep(theirs)
        return KeptLaunch(keeper, ours)
    except BaseException:
        ours.close()  # the keeper takes it for our death and leaves nothing behind
        if keeper is not None and keeper.reap is not None:
            keeper.reap()
        raise


class KeptLaunch:
    """One command and its `keeper`, at the other end of `line`; see `Launch`."""

    def __init__(self, keeper: WaitingKeeper, line: socket.socket) -> None:
        self.how = keeper.how
        self._keeper = keeper.pid
        self._reap = keeper.reap
        self._line = line
        order = keeper.order
        self._lines = LineChannel(line)
        self._end: LaunchEnd | None = None
        self._lines.say(order, limit=_START_LIMIT)
        said = self._wait_for("started", "failed", limit=_START_LIMIT)
        if "failed" in said:
            raise UsageError(f"cannot start {order['command'][0]!r}: {said['failed']}")
        self._process = Process(int(said["started"]), int(said["starttime"]))

    @property
    def process(self) -> Process:
        """See `Launch.process`."""
        return self._process

    def fileno(self) -> int:
        """See `Launch.fileno`."""
        return self._line.fileno()

    def ended(self) -> LaunchEnd | None:
        """See `Launch.ended`."""
        while self._end is None and self._hear(0.0):
            pass
        return self._end

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """See `Launch.stop`."""
        if self._end is not None:
            return ()
        try:
            self._line.settimeout(_STOP_LIMIT)
            self._line.sendall(b"stop\n")
        except OSError as error:
            raise self._lost() from error
        said = self._wait_for("stopped", limit=_STOP_LIMIT)
        return tuple(said["stopped"])

    def ask_to_end(self) -> None:
        """See `NodeLaunch.ask_to_end`."""
        processes.send(self._process, signal.SIGTERM)

    def close(self) -> None:
        """See `Launch.close`."""
        if self._line.fileno() < 0:
            return
        try:
            self.stop()
        finally:
            with suppress(OSError):  # where it is gone already
                self._line.sendall(b"leave\n")
                self._line.settimeout(_STOP_LIMIT)
                while self._line.recv(1 << 16):  # until it is gone
                    pass
            self._line.close()
            if self._reap is not None:
                self._reap()

    def drop(self) -> None:
        """Let go of a launch whose keeper is gone for good."""
        self._line.close()
        if self._reap is not None:
            self._reap()

    def _wait_for(self, *names: str, limit: float) -> Mapping[str, Any]:
        """The first message that has one of `names`; raises ChaoskitError after `limit` seconds."""
        deadline = time.monotonic() + limit
        while True:
            said = self._hear(max(0.0, deadline - time.monotonic()))
            if said is None:
                raise ChaoskitError(f"the keeper of the job (pid {self._keeper}) did not answer within {limit:g} s")
            if any(name in said for name in names):
                return said

    def _hear(self, timeout: float) -> Mapping[str, Any] | None:
        """The keeper's next message, applied to our state; None if there is none in `timeout` seconds."""
        try:
            said = self._lines.hear(timeout)
        except TimeoutError:
            return None
        except OSError as error:
            raise self._lost() from error
        if "ended" in said:
            self._end = LaunchEnd(int(said["ended"]), tuple(said["survivors"]))
        elif "stopped" in said and self._end is None:
            self._end = LaunchEnd(int(said["code"]))
        return said

    def _lost(self) -> ChaoskitError:
        return ChaoskitError(f"the keeper of the job (pid {self._keeper}) was killed")
