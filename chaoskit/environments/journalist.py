"""`Journalist`: writes the lines of the journal of `chaoskit.journal`, one operation after the other, as they succeed.

A line is written as soon as its operation, and every one before it, has been carried out. So if we are killed, what is
there is the truth up to some instant. Nothing is forced to the disk, for the machine is not to fail. Standard library
only.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.callers import Caller
from chaoskit.journal import FORMAT, Kind

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


@dataclass(eq=False, slots=True)
class Note:
    """A line of the journal; `done` once its operation has been carried out."""

    line: bytes
    done: bool


class Journalist:
    """Begins the file `operations.jsonl` in `directory`, which must not hold one. For several threads."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / "operations.jsonl", _NEW, 0o644)
        self._turn = threading.Lock()
        self._waiting: deque[Note] = deque()
        self.count = 0
        os.write(self._fd, _line({"format": FORMAT}))

    def note(self, kind: Kind, path: str, file: int, caller: Caller, *, done: bool = True, **told: Any) -> Note:
        """One operation, with the fields of an `Operation` that are not as usual. What is noted in one thread after the
        other is in that order. If it is yet to be carried out, say `settle` when it was."""
        line: dict[str, Any] = {"n": 0, "t": time.monotonic(), "kind": kind, "path": path, "file": file}
        if caller.process:
            line |= {"process": caller.process, "thread": caller.thread, "session": caller.session}
        line |= {name: value for name, value in told.items() if value is not False}
        with self._turn:
            line["n"] = self.count
            self.count += 1
            made = Note(_line(line), done)
            self._waiting.append(made)
            self._write()
        return made

    def settle(self, note: Note) -> None:
        """It has been carried out."""
        with self._turn:
            note.done = True
            self._write()

    def _write(self) -> None:
        lines = []
        while self._waiting and self._waiting[0].done:
            lines.append(self._waiting.popleft().line)
        if lines:
            os.write(self._fd, b"".join(lines))


def _line(told: dict[str, Any]) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"
