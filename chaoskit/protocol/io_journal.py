"""The journal of a job's storage: every operation that changed or forced something, over all processes, in one
order.

`<run_dir>/journal/operations.jsonl` has one operation a line, `<run_dir>/journal/data` the bytes that were written,
if they were kept. Its writer may be killed at any instruction: an operation whose line has no end did not happen.
Standard library only: the process that serves the file system writes the journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from chaoskit.protocol import json_lines
from chaoskit.protocol.stored_files import LONGEST_RECORD, open_stored, read_stored
from chaoskit.schema import Count, SchemaError, conform

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
#: Operations that change the names in a directory. They are certainly on the disk once the directory was forced there.
NAMING = frozenset(("create", "mkdir", "symlink", "link", "rename", "unlink", "rmdir"))


class JournalError(ValueError):
    """A journal that cannot be read; the message says which line."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation that succeeded.

    `n` counts from 0; `t` is the time of its end, in seconds of the monotonic clock. `file` is the number of an
    inode, the same under all its names and shared with no other (the root is 0). `path` is the name that the caller
    used, relative to the root of the file system ("" is the root itself). `process` and `thread` are the ids of the
    caller (0: the kernel, for a mapped page), `session` is its session id: torchrun gives each rank one.

    By kind:

    - `create`, `mkdir`, `symlink`: the new `path`, of mode `mode`; `to` is the target of a symlink.
    - `link`: `file` has the further name `to`. `rename`: `path` is now `to`; `replaced` is the number of the file
      that had that name before, None if none did. `exchange` renames swap both.
    - `unlink`, `rmdir`: `path` is gone.
    - `write`: `size` bytes at `offset` of the file; they are at `data` of the data file, None if they were not
      kept.
    - `truncate`: the file is `size` bytes long from now on. `chmod`: its mode is `mode`.
    - `fsync`: everything of the file that an operation before `since` made is on the disk. `fsyncdir`: so is every
      name in the directory `path`. (An fsync takes time; `since` is the count when it began.) `only_data` for
      fdatasync.
    """

    n: Count
    t: float
    kind: Kind
    path: str
    file: int
    process: int = 0
    thread: int = 0
    session: int = 0
    to: str | None = None
    offset: Count = 0
    size: Count = 0
    data: Count | None = None
    mode: Count = 0
    replaced: int | None = None
    exchange: bool = False
    since: int = 0
    only_data: bool = False


_DEFAULTS = {field.name: field.default for field in fields(Operation)}


def to_line(operation: Operation) -> bytes:
    """One line of `operations.jsonl`: the fields that do not have their default values."""
    return json_lines.encode(
        {name: value for name, value in asdict(operation).items() if value != _DEFAULTS[name]}
    )


@dataclass(frozen=True)
class Journal:
    """A stored journal: its operations, oldest first, and the bytes that were kept."""

    directory: Path
    operations: tuple[Operation, ...]

    @classmethod
    def read(cls, run_dir: Path) -> Journal:
        """The journal of a run; raises JournalError if there is none or it cannot be read."""
        directory = run_dir / NAME
        try:
            text = read_stored(directory / "operations.jsonl", longest=LONGEST_RECORD)
        except OSError as error:
            raise JournalError(f"{run_dir} has no journal of its storage: {error}") from error
        return cls(directory, tuple(_operations(text, directory)))

    def bytes_of(self, operation: Operation) -> bytes:
        """The bytes that a `write` wrote; raises JournalError if they were not kept."""
        if operation.data is None:
            raise JournalError(f"the bytes of operation {operation.n} were not kept")
        with open_stored(self.directory / "data") as file:
            file.seek(operation.data)
            found = file.read(operation.size)
        if len(found) != operation.size:
            raise JournalError(
                f"the bytes of operation {operation.n} are cut short: {len(found)} of {operation.size}"
            )
        return found


def _operations(text: bytes, directory: Path) -> Iterator[Operation]:
    for line in json_lines.decode(text):
        if not line.ended:
            return  # the writer was killed before it wrote the end: the operation is not known to have succeeded
        try:
            if line.error is not None:
                raise line.error
            if not isinstance(line.value, dict) or "format" not in line.value:
                made = conform(Operation, line.value)
                if unknown := line.value.keys() - _DEFAULTS.keys():
                    raise SchemaError(f"has a field {min(unknown)} that this chaoskit does not know")
                yield made
            elif line.value["format"] != FORMAT:
                raise JournalError(f"{directory}: format {line.value['format']}, this chaoskit reads {FORMAT}")
        except (ValueError, TypeError, RecursionError) as error:
            if isinstance(error, JournalError):
                raise
            raise JournalError(f"{directory}/operations.jsonl, line {line.number}: {error}") from error
