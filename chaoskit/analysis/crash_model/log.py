"""`Log`: the operations of a journal as what they change: names in directories, and the data of files.

A file goes by its number, so an operation that was lost takes nothing else with it than what rests on it: what has
happened to one name has happened in order, and can be on the disk only if everything is that happened to it before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from chaoskit.analysis.crash_model.contents import File
from chaoskit.analysis.crash_model.tree import ROOT, Directory, Inode, Symlink, TreeChange
from chaoskit.protocol.io_journal import NAMING, Journal, JournalError, Operation

#: What changes a file and not its names. It is on the disk for sure once that file has been forced there.
DATA = frozenset(("write", "truncate", "chmod"))


@dataclass(frozen=True)
class Naming:
    """An operation on names: all its changes are on the disk, or none. `needs` are the operations that it rests on, and
    what they rest on, `holds` those that rest on it."""

    changes: tuple[TreeChange, ...]
    needs: tuple[int, ...]
    holds: list[int]


class Log:
    """The first `upto` operations of a journal that began with an empty directory.

    `naming` has the operations on names by their number, `data` those on each file's data in order, `made` the inodes
    as they were made, `forcing` the fsyncs of each file and directory, those to come as well. Raises JournalError for
    an operation that cannot have happened after those before it.
    """

    def __init__(self, journal: Journal, *, upto: int) -> None:
        self.operations = journal.operations[:upto]
        self.forcing: defaultdict[int, list[Operation]] = defaultdict(list)
        for operation in journal.operations:
            if operation.kind in ("fsync", "fsyncdir"):
                self.forcing[operation.file].append(operation)
        self.naming: dict[int, Naming] = {}
        self.data: defaultdict[int, list[Operation]] = defaultdict(list)
        self.made: dict[int, tuple[int, Inode]] = {}
        self._entries: dict[int, dict[str, int]] = {ROOT: {}}
        self._parents: dict[int, int] = {}
        self._latest: dict[tuple[int, str] | None, int] = {}
        for place, operation in enumerate(self.operations):
            if operation.n != place:
                raise JournalError(f"operation {operation.n} stands where operation {place} should")
            self._take(operation)

    def names(self, above: str = "", directory: int = ROOT) -> Iterator[tuple[str, int, str, int]]:
        """All that is there in the end: path, the directory it is in and its name there, and its number."""
        for name, number in sorted(self._entries[directory].items()):
            path = f"{above}/{name}" if above else name
            yield path, directory, name, number
            if number in self._entries:
                yield from self.names(path, number)

    def changed(self, done: int) -> dict[int, float]:
        """When each file and directory had last been changed, once `done` operations were done."""
        times: dict[int, float] = {}
        for operation in self.operations[:done]:
            if operation.kind in ("create", "mkdir", "symlink", "write", "truncate"):
                times[operation.file] = operation.t
            if operation.n in self.naming:
                times |= {change.directory: operation.t for change in self.naming[operation.n].changes}
        return times

    def _take(self, operation: Operation) -> None:
        n, kind, file = operation.n, operation.kind, operation.file
        if kind in ("create", "mkdir", "symlink"):
            self.made[file] = (n, _inode(operation))
            if kind == "mkdir":
                self._entries[file] = {}
        elif file not in self.made and file != ROOT:
            raise JournalError(f"operation {n}: {kind} of {operation.path!r}, which no operation has made")
        if kind in NAMING:
            changes = self._changes(operation)
            self._remember(n, changes)
            for directory, name, _, after in changes:
                self._entries[directory].pop(name, None)
                if after is not None:
                    self._entries[directory][name] = after
        elif kind in DATA and file != ROOT and isinstance(self.made[file][1], File):
            self.data[file].append(operation)

    def _changes(self, operation: Operation) -> tuple[TreeChange, ...]:
        kind, file = operation.kind, operation.file
        if kind == "link":
            return (self._change(operation, operation.to or "", file),)
        if kind == "rename":
            old = self._change(operation, operation.path, None)
            new = self._change(operation, operation.to or "", file)
            if old.before == new.before:
                return ()  # two names of one file: nothing happens
            return (old._replace(after=new.before if operation.exchange else None), new)
        return (self._change(operation, operation.path, None if kind in ("unlink", "rmdir") else file),)

    def _change(self, operation: Operation, path: str, after: int | None) -> TreeChange:
        above, _, name = path.rpartition("/")
        directory: int | None = ROOT
        for part in filter(None, above.split("/")):
            directory = self._entries.get(directory, {}).get(part) if directory is not None else None
        if directory not in self._entries or not name:
            raise JournalError(f"operation {operation.n}: {operation.kind} of {path!r}, where no directory is")
        before = self._entries[directory].get(name)
        if before is None and after is None:
            raise JournalError(f"operation {operation.n}: {operation.kind} of {path!r}, which is not there")
        return TreeChange(directory, name, before, after)

    def _remember(self, n: int, changes: tuple[TreeChange, ...]) -> None:
        keys: list[tuple[int, str] | None] = [(change.directory, change.name) for change in changes]
        if len({change.directory for change in changes}) > 1 and any(c.after in self._entries for c in changes):
            # A directory that moves into another: those moves keep their order, or two could end inside each other.
            keys.append(None)
        needs: set[int] = set()
        for key in keys:
            if key in self._latest:
                needs |= {self._latest[key], *self.naming[self._latest[key]].needs}
            self._latest[key] = n
        for earlier in needs:
            self.naming[earlier].holds.append(n)
        self.naming[n] = Naming(changes, tuple(sorted(needs)), [])


def forced(log: Log, profile: str, *, first: int = 0) -> dict[int, int]:
    """For each operation that something forces: how many operations were done when it was on the disk for sure.

    What came before operation `first` counts as being there from the beginning.
    """
    at = dict.fromkeys(range(first), 0)
    unforced: defaultdict[int | None, list[int]] = defaultdict(list)  # by directory, None: all names
    data: defaultdict[int, list[int]] = defaultdict(list)
    closing = _closing(log) if profile == "ext4" else {}

    def force(waiting: list[int], before: int, done: int) -> None:
        for n in [n for n in waiting if n < before]:
            for each in (n, *(log.naming[n].needs if n in log.naming else ())):
                at.setdefault(each, done)
        waiting[:] = [n for n in waiting if n >= before]

    for operation in log.operations:
        n, file = operation.n, operation.file
        if n in log.naming:
            if profile == "ext4":
                unforced[None].append(n)
                if operation.replaced is not None and not operation.exchange:
                    force(data[file], n, n + 1)
            else:
                for directory in {change.directory for change in log.naming[n].changes}:
                    unforced[directory].append(n)
        elif operation.kind in DATA:
            data[file].append(n)
        elif operation.kind in ("fsync", "fsyncdir"):
            force(unforced[None if profile == "ext4" else file], operation.since, n + 1)
            force(data[file], operation.since, n + 1)
        for closed in closing.get(n, ()):
            force(data[closed], n, n + 1)
    return at


def _closing(log: Log) -> dict[int, list[int]]:
    """Files that had been cut to nothing and were written anew, by the operation that takes them for closed: a journal
    tells of no close, so it is the next operation of the process that wrote last."""
    closing: defaultdict[int, list[int]] = defaultdict(list)
    for file, operations in log.data.items():
        size, emptied = 0, False
        changing = [operation for operation in operations if operation.kind != "chmod"]
        for operation, following in zip_longest(changing, changing[1:]):
            if operation.kind == "truncate":
                emptied, size = size > 0 and operation.size == 0, operation.size
                continue
            size = max(size, operation.offset + operation.size)
            if emptied and (following is None or following.kind == "truncate"):
                later = log.operations[operation.n + 1 :]
                next_one = next((other.n for other in later if other.process == operation.process), None)
                if next_one is not None:
                    closing[next_one].append(file)
    return closing


def _inode(operation: Operation) -> Inode:
    mode = operation.mode & 0o7777
    if operation.kind == "mkdir":
        return Directory(mode)
    return Symlink(operation.to or "") if operation.kind == "symlink" else File(mode)
