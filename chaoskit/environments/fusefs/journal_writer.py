"""`JournalWriter`: writes the journal of `chaoskit.protocol.io_journal`: one line per operation that succeeded.

A line is written as soon as its operation, and every earlier one, has been carried out. If the process is killed,
the journal is true up to some instant. It is not synced: the machine is not expected to fail. Standard library
only.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.fusefs.callers import Caller
from chaoskit.protocol.io_journal import FORMAT, Kind
from chaoskit.protocol.json_lines import append, encode

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


@dataclass(eq=False, slots=True)
class Note:
    """A line of the journal; `done` once its operation has been carried out."""

    line: bytes
    done: bool


class JournalWriter:
    """Begins the file `operations.jsonl` in `directory`, which must not hold one. For several threads."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / "operations.jsonl", _NEW, 0o644)
        self._turn = threading.Lock()
        self._waiting: deque[Note] = deque()
        self.count = 0
        append(self._fd, encode({"format": FORMAT}))

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
            made = Note(encode(line), done)
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
            append(self._fd, b"".join(lines))
