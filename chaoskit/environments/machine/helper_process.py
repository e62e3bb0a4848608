"""`HelperProcess`: a process that works for a run, and the socket on which it takes requests."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaoskit.environments.launch.lines import LineChannel
from chaoskit.errors import ChaoskitError

_LIMIT = 60.0


class HelperRefused(ChaoskitError):
    """The helper could not do it; `number` is the errno, if there was one."""

    def __init__(self, message: str, *, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class HelperProcess:
    """Starts `script`, which runs until `close`, or until the harness dies. Errors name it by `called`."""

    def __init__(self, script: Path, *words: str, called: str) -> None:
        self._called = called
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(script), *words],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        self._line = ours
        self._lines = LineChannel(ours)

    def ask(self, request: str, **given: Any) -> Any:
        """Send a request and return the answer.

        Raises HelperRefused if the helper could not do it, ChaoskitError if the helper has ended.
        """
        try:
            self._lines.say({"do": request, **given}, limit=_LIMIT)
            said = self._lines.hear(_LIMIT)
        except OSError as error:
            raise ChaoskitError(f"{self._called} has ended or does not answer: {self._last_words()}") from error
        if "failed" in said:
            raise HelperRefused(said["failed"], number=said.get("errno"))
        return said["done"]

    def fileno(self) -> int:
        """Readable once the helper has ended: it never speaks without being asked."""
        return self._line.fileno()

    def must_stand(self) -> None:
        """Raises ChaoskitError if the helper has ended."""
        if select.select([self._line], [], [], 0)[0]:
            raise ChaoskitError(f"{self._called} has ended: {self._last_words()}")

    def close(self) -> None:
        """End the helper; may be called again."""
        self._line.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired, ValueError):
            _, said = self.process.communicate(timeout=1)
            return (
                said.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {self.process.returncode}"
            )
        return "it still runs"
