"""The journal of a job's storage: every operation that changed or forced something, in one order, over all processes.

`<run_dir>/journal/operations.jsonl` holds one operation a line, `<run_dir>/journal/data` the bytes that were written,
where they were kept. Who writes it may be killed at any instruction: a last line without an end never happened.
Standard library only: the process that serves the file system writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

NAME = "journal"
FORMAT = 1

Kind = Literal[
    "create",
    "mkdir",
    "symlink",
    "link",
    "write",
    "truncate",
    "fsync",
    "fsyncdir",
    "rename",
    "unlink",
    "rmdir",
    "chmod",
]
#: What changes the names in a directory; it is on the disk for sure once that directory has been forced there.
NAMING = frozenset(("create", "mkdir", "symlink", "link", "rename", "unlink", "rmdir"))


class JournalError(ValueError):
    """A journal that cannot be read; says which line."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation that succeeded.

    `n` counts from 0; `t` is when it had been done, in seconds of the monotonic clock. `file` is a number that an
    inode keeps under all its names and shares with no other (the root is 0); `path` is the name that it went by,
    relative to the root of the file system ("" is the root itself). `process` and `thread` are the ids of who asked
    (0: the kernel, for a page that was mapped), `session` that of his session: torchrun gives each rank one.

    By kind:

    - `create`, `mkdir`, `symlink`: the new `path`, of mode `mode`; `to` is what a symlink says.
    - `link`: `file` has the further name `to`. `rename`: `path` is now `to`; `replaced` is the number of the file that
      bore that name before, None if none did. `exchange` renames swap both.
    - `unlink`, `rmdir`: `path` is gone.
    - `write`: `size` bytes at `offset` of the file; they are kept at `data` of the data file, None if they were not.
    - `truncate`: the file is `size` bytes long from now on. `chmod`: its mode is `mode`.
    - `fsync`: everything of the file, and `fsyncdir`: every name in the directory `path`, that an operation before
      `since` has made, is on the disk. (An fsync takes time; `since` is the count when it began.) `only_data` where
      it was fdatasync.
    """

    n: int
    t: float
    kind: Kind
    path: str
    file: int
    process: int = 0
    thread: int = 0
    session: int = 0
    to: str | None = None
    offset: int = 0
    size: int = 0
    data: int | None = None
    mode: int = 0
    replaced: int | None = None
    exchange: bool = False
    since: int = 0
    only_data: bool = False


_DEFAULTS = {field.name: field.default for field in fields(Operation)}


def to_line(operation: Operation) -> bytes:
    """One line of `operations.jsonl`: what is not as usual."""
    told = {name: value for name, value in asdict(operation).items() if value != _DEFAULTS[name]}
    return json.dumps(told, separators=(",", ":")).encode("utf-8", "surrogateescape") + b"\n"


@dataclass(frozen=True)
class Journal:
    """A stored journal: its operations, oldest first, and the bytes that were kept."""

    directory: Path
    operations: tuple[Operation, ...]

    @classmethod
    def read(cls, run_dir: Path) -> Journal:
        """The journal of a run; raises JournalError where there is none or it cannot be read."""
        directory = run_dir / NAME
        try:
            text = (directory / "operations.jsonl").read_bytes()
        except OSError as error:
            raise JournalError(f"{run_dir} holds no journal of its storage: {error}") from error
        return cls(directory, tuple(_operations(text, directory)))

    def bytes_of(self, operation: Operation) -> bytes:
        """What a `write` wrote; raises JournalError where it was not kept."""
        if operation.data is None:
            raise JournalError(f"the bytes of operation {operation.n} were not kept")
        with (self.directory / "data").open("rb") as file:
            file.seek(operation.data)
            found = file.read(operation.size)
        if len(found) != operation.size:
            raise JournalError(
                f"the bytes of operation {operation.n} are cut short: {len(found)} of {operation.size}"
            )
        return found


def _operations(text: bytes, directory: Path) -> Iterator[Operation]:
    lines = text.split(b"\n")[:-1]  # a line without an end was cut short
    for number, line in enumerate(lines, start=1):
        try:
            told: dict[str, Any] = json.loads(line)
            if "format" in told:
                if told["format"] != FORMAT:
                    raise JournalError(f"{directory}: format {told['format']}, this chaoskit reads {FORMAT}")
                continue
            yield Operation(**told)
        except (ValueError, TypeError) as error:
            if isinstance(error, JournalError):
                raise
            raise JournalError(f"{directory}/operations.jsonl, line {number}: {error}") from error
