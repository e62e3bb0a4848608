"""`ColdLauncher`: starts the command afresh, as a shell would, with a keeper in between (see `keeper`)."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.capabilities import Process
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.launch.launcher import LaunchEnd

_KEEPER = Path(__file__).with_name("keeper.py")
#: Seconds for what takes milliseconds on a healthy machine.
_START_LIMIT = 30.0
_STOP_LIMIT = 60.0


@dataclass(frozen=True)
class ColdLauncher:
    """Starts each command in fresh processes. `grace`: how many seconds they may outlive the command before they
    count as survivors. A worker of torch's data loader looks every five seconds whether its rank still lives."""

    grace: float = 8.0

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        tmp: Path | None,
        run_id: str,
    ) -> ColdLaunch:
        """See `Launcher.start`."""
        order = {
            "command": list(command),
            "env": dict(env),
            "cwd": str(cwd.absolute()),
            "log": str(log.absolute()),
            "tmp": str(tmp.absolute()) if tmp is not None else None,
            "grace": self.grace,
        }
        ours, theirs = socket.socketpair()
        try:
            with theirs, log.open("ab") as errors:
                keeper = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_KEEPER), run_id],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise UsageError(f"cannot start a process: {error}") from error
        try:
            return ColdLaunch(keeper, ours, order)
        except BaseException:
            ours.close()  # the keeper takes it for our death and leaves nothing behind
            keeper.wait()
            raise


class ColdLaunch:
    """One command and its keeper; see `Launch`."""

    def __init__(self, keeper: subprocess.Popen[bytes], line: socket.socket, order: Mapping[str, Any]) -> None:
        self._keeper = keeper
        self._line = line
        self._heard = b""
        self._end: LaunchEnd | None = None
        self._stopped: tuple[Mapping[str, Any], ...] | None = None
        line.settimeout(_START_LIMIT)
        line.sendall(json.dumps(order).encode() + b"\n")
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

    def close(self) -> None:
        """See `Launch.close`."""
        if self._line.fileno() < 0:
            return
        try:
            self.stop()
        finally:
            with suppress(OSError):  # where it is gone already
                self._line.sendall(b"leave\n")
            self._line.close()
        self._keeper.wait()

    def _wait_for(self, *names: str, limit: float) -> Mapping[str, Any]:
        """The first message that has one of `names`; raises ChaoskitError after `limit` seconds."""
        deadline = time.monotonic() + limit
        while True:
            said = self._hear(max(0.0, deadline - time.monotonic()))
            if said is None:
                raise ChaoskitError(f"the keeper of the job (pid {self._keeper.pid}) is silent after {limit:g} s")
            if any(name in said for name in names):
                return said

    def _hear(self, timeout: float) -> Mapping[str, Any] | None:
        """The keeper's next message, taken to heart; None if there is none in `timeout` seconds."""
        self._line.settimeout(timeout)
        while b"\n" not in self._heard:
            try:
                data = self._line.recv(1 << 16)
            except (BlockingIOError, TimeoutError):
                return None
            except OSError as error:
                raise self._lost() from error
            if not data:
                raise self._lost()
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        said: Mapping[str, Any] = json.loads(line)
        if "ended" in said:
            self._end = LaunchEnd(int(said["ended"]), tuple(said["survivors"]))
        elif "stopped" in said and self._end is None:
            self._end = LaunchEnd(int(said["code"]))
        return said

    def _lost(self) -> ChaoskitError:
        return ChaoskitError(f"the keeper of the job (pid {self._keeper.pid}) died: somebody killed it")
