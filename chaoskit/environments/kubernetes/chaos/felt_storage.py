"""`FeltStorage`: the lines of the job's output and record that name an error of its storage, from now on."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

_SHOWN, _LONGEST = 3, 300


class FeltStorage:
    """Reads what the processes of the job in `run_dir` write from now on. `lines` mention the error named `error`: the
    first few of `count`."""

    def __init__(self, run_dir: Path, error: str) -> None:
        number = int(getattr(errno, error))
        self._run_dir = run_dir
        self._mentions = re.compile(rb"\[Errno %d\]|%s" % (number, re.escape(os.strerror(number).encode())))
        self._read = {path: path.stat().st_size for path in self._files()}
        self.count = 0
        self.lines: list[str] = []

    def look(self) -> int:
        """Read what is new; returns how many lines mention the error by now."""
        for path in self._files():
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.splitlines():
                if self._mentions.search(line):
                    self.count += 1
                    if len(self.lines) < _SHOWN:
                        self.lines.append(line.decode(errors="replace").strip()[:_LONGEST])
        return self.count

    def _files(self) -> list[Path]:
        records = [path for path in (self._run_dir / "events").glob("*.jsonl") if path.stem != "harness"]
        return [*(self._run_dir / "logs").glob("*.log"), *records]
