"""`Parent`: the harness's connection to a warm parent (see `forkserver`), which it starts if there is none yet.

A parent listens at an abstract socket whose name is a digest of everything that it must have in common with the
job. All harnesses of one user share it, workers of pytest-xdist too. It ends with the last of them, however they
end, and leaves nothing in any file system.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaoskit.environments.launch import surroundings
from chaoskit.environments.launch.lines import LineChannel
from chaoskit.environments.launch.rank_modules import rank_modules
from chaoskit.errors import CannotWarm, ParentLost
from chaoskit.protocol.fingerprint import LENT, library

_SCRIPT = Path(__file__).with_name("forkserver.py")
#: Seconds for imports on a machine that is busy, and for what takes milliseconds.
_IMPORT_LIMIT, _LIMIT = 300.0, 30.0


class Parent:
    """One connection. `slot` tells apart parents that are alike: each has a seed of `hash`, and a layout, of its own.

    Raises ParentLost where none can be had.
    """

    def __init__(self, interpreter: str, env: Mapping[str, str], *, slot: int, packages: Sequence[str]) -> None:
        self._asked: list[str] = []
        self._unread = 0
        self._unfit: str | None = None
        self.process: subprocess.Popen[bytes] | None = None
        name = surroundings.digest(interpreter, dict(env), surroundings.limits(), slot, list(packages), _stamp())
        self._line = self._connect(f"\0chaoskit-{os.getuid()}-{name}", [interpreter, "-u", str(_SCRIPT)], env)
        self._lines = LineChannel(self._line)

    def _connect(self, address: str, command: list[str], env: Mapping[str, str]) -> socket.socket:
        deadline = time.monotonic() + _LIMIT
        while True:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.settimeout(_LIMIT)
                line.connect(address)
                _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                if uid != os.getuid():
                    raise ParentLost(f"another user (uid {uid}) answers at the address of our warm parent")
                return line
            except ConnectionRefusedError:
                line.close()
                self._begin(address, command, env)
            except OSError as error:
                line.close()
                raise ParentLost(f"the warm parent cannot be reached: {error}") from error
            except ParentLost:
                line.close()
                raise
            if time.monotonic() > deadline:
                raise ParentLost("the warm parent ends as soon as it is started")

    def _begin(self, address: str, command: list[str], env: Mapping[str, str]) -> None:
        """Start it, unless another harness is just doing so. Its socket listens before it is up: nobody misses it."""
        with socket.socket(socket.AF_UNIX) as listener:
            try:
                listener.bind(address)
                listener.listen(64)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    time.sleep(0.01)  # between its bind and its listen there is nothing to wait for
                    return
                raise
            try:
                self.process = subprocess.Popen(
                    [*command, str(listener.fileno())],
                    env={**env, LENT: library()},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[listener.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                raise ParentLost(f"the warm parent cannot be started: {error}") from error

    @property
    def is_lost(self) -> bool:
        """Whether it has gone."""
        poll = select.poll()
        poll.register(self._line, select.POLLRDHUP)
        return self._line.fileno() < 0 or bool(poll.poll(0))

    def ask(self, modules: Sequence[str]) -> None:
        """Have it import these, at its leisure; `unfit` waits for the end of it."""
        if set(modules) <= set(self._asked):
            return
        self._asked += modules
        self._say({"import": list(modules)})
        self._unread += 1

    def unfit(self) -> str | None:
        """Why it must not be forked, once everything is imported; None if it may."""
        while self._unread:
            self._unfit = self._hear(_IMPORT_LIMIT).get("unfit")
            self._unread -= 1
        return self._unfit

    def keep(self, line: socket.socket, run_id: str) -> int:
        """Fork a keeper whose socket is `line`; its pid. Raises CannotWarm if it must not be forked any more."""
        self._say({"keep": run_id}, line)
        answer = self._hear(_LIMIT)
        if (reason := answer.get("unfit")) is not None:
            self._unfit = str(reason)
            raise CannotWarm(self._unfit)
        return int(answer["keeper"])

    def close(self) -> None:
        """Let go of it; if it was started here and nobody else needs it, it is gone afterwards."""
        self._line.close()
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.5)
            self.process.returncode = self.process.returncode or 0  # it may outlive us, for others

    def _say(self, request: Mapping[str, Any], *lines: socket.socket) -> None:
        try:
            self._lines.say(request, limit=_LIMIT, fds=[line.fileno() for line in lines])
        except OSError as error:
            raise ParentLost(f"the warm parent has ended: {error}") from error

    def _hear(self, limit: float) -> dict[str, Any]:
        try:
            return self._lines.hear(limit)
        except OSError as error:
            raise ParentLost(f"the warm parent died, or does not answer: {error}") from error


def _stamp() -> list[object]:
    """The version of chaoskit's own code: a warm parent that runs an older one must not be used."""
    return [[str(path), path.stat().st_mtime_ns] for path in rank_modules()]
