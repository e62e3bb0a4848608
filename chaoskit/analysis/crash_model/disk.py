"""`Disk`: what can have come of a journal on a disk: the tree after so many operations, less what was lost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import RLock
from typing import Literal, NamedTuple

from chaoskit.analysis.crash_model.contents import Contents, File
from chaoskit.analysis.crash_model.log import Log, forced
from chaoskit.analysis.crash_model.tree import Directory, Inode, Tree, TreeChange
from chaoskit.protocol.io_journal import Journal, JournalError, Operation

#: What became of an operation on a file's data. "sized": its bytes are lost, and what it did to the size is not, so
#: that they are zeros, or what was there before. "lost": it is as if it had never been.
Fate = Literal["kept", "sized", "lost"]
#: What is left of a file whose data was lost. "old": what it was before. "cut": the same, but truncated as it was
#: since. "zeros": its size, and zeros where nothing was before. "torn": a part of one write is missing. "some": some
#: operations are.
Left = Literal["old", "cut", "zeros", "torn", "some"]


class Torn(NamedTuple):
    """Of a write, the bytes from `start` up to `end` came through; with `sized` the file is as long as if all had."""

    start: int
    end: int
    sized: bool


@dataclass(frozen=True)
class Gone:
    """What a crash took of the data of one file: operations from number `since` on, or those of one session alone.

    For "torn" and "some" it is the operations in `fates`, with the fate of each.
    """

    left: Left
    since: int
    session: int | None = None
    fates: Mapping[int, Fate | Torn] = field(default_factory=dict)

    def fate(self, operation: Operation) -> Fate | Torn:
        """What became of an operation on that file."""
        if operation.n < self.since or (self.session is not None and operation.session != self.session):
            return "kept"
        if self.left in ("torn", "some"):
            return self.fates.get(operation.n, "kept")
        if self.left == "old":
            return "lost"
        written = operation.kind == "write"
        return "kept" if not written else "lost" if self.left == "cut" else "sized"


@dataclass(frozen=True)
class Missing:
    """What a crash took: operations on names with all that rest on them, and of the data of files."""

    names: frozenset[int] = frozenset()
    data: Mapping[int, Gone] = field(default_factory=dict)


@dataclass(frozen=True)
class Pending:
    """What nothing has forced: operations on names, in order, and for each file those on its data, in order."""

    names: tuple[int, ...]
    data: Mapping[int, Sequence[Operation]]


class Disk:
    """The disk beneath a journal after each of its first `start` to `last` operations.

    What came before operation `start` is there. Raises JournalError where bytes that matter were not kept. Threads may
    share it.
    """

    def __init__(self, journal: Journal, *, start: int, last: int) -> None:
        self._lock = RLock()
        self.log = Log(journal, upto=last)
        self.contents = Contents(journal)
        self._at = {profile: forced(self.log, profile, first=start) for profile in ("ext4", "posix")}
        self._names = [n for n in self.log.naming if n >= start]
        late = {file: [one for one in ops if one.n >= start] for file, ops in self.log.data.items()}
        self.data = {file: ops for file, ops in late.items() if ops}
        self._numbers = {file: [one.n for one in ops] for file, ops in self.data.items()}
        self._start, self._beginning = start, self._begin(start)
        self._series: dict[tuple[int, int, Left | None, int | None], list[File]] = {}
        self._whole = {start: self._beginning}
        for operation in self.log.operations[start:]:
            self._whole[operation.n + 1] = self._after(operation)
        self.pending = lru_cache(maxsize=8)(self._pending)
        self._bare = lru_cache(maxsize=2)(self._without_names)

    def whole(self, done: int) -> Tree:
        """The tree after `done` operations, with nothing missing."""
        return self._whole[done]

    def tree(self, done: int, missing: Missing) -> Tree:
        """The tree after `done` operations, less what is missing."""
        files = [(file, self.file(file, done, gone)) for file, gone in missing.data.items()]
        pending = self.pending(done, "posix").names
        if 2 * len(missing.names) <= len(pending):
            tree, names = self._whole[done], self._undoing(missing.names)
        else:
            tree, names = self._bare(done), self._doing(n for n in pending if n not in missing.names)
        return tree.changed(inodes=files, names=names) if files or names else tree

    def file(self, file: int, done: int, gone: Gone | None = None) -> File:
        """A file after `done` operations, less what is gone."""
        with self._lock:  # what was made once is kept, in order
            return self._file(file, done, gone)

    def _file(self, file: int, done: int, gone: Gone | None) -> File:
        ops, numbers = self.data.get(file, []), self._numbers.get(file, [])
        end = bisect_left(numbers, done)
        if gone is None:
            return self._replayed(file, 0, end, None)
        begin = min(bisect_left(numbers, gone.since), end)
        if gone.left not in ("torn", "some"):
            return self._replayed(file, begin, end, gone)
        found = self._replayed(file, 0, begin, None)
        for operation in ops[begin:end]:
            found = self._applied(found, operation, gone.fate(operation))
        return found

    def overwrites(self, write: Operation, pending: Sequence[Operation]) -> bool:
        """Whether a write changes only bytes that its file had before all that is pending on it."""
        if write.kind != "write" or not pending or any(one.kind == "truncate" for one in pending):
            return False
        return write.offset + write.size <= self.file(write.file, pending[0].n).size

    def _replayed(self, file: int, begin: int, end: int, gone: Gone | None) -> File:
        """The file after `end` operations on it, of which those from `begin` on met the same end: each is done once."""
        key = (file, begin, gone.left if gone else None, gone.session if gone else None)
        if key not in self._series:
            self._series[key] = [self._first(file) if gone is None else self._replayed(file, 0, begin, None)]
        series = self._series[key]
        for operation in self.data.get(file, [])[begin + len(series) - 1 : end]:
            series.append(self._applied(series[-1], operation, gone.fate(operation) if gone else "kept"))
        return series[end - begin]

    def _applied(self, file: File, operation: Operation, fate: Fate | Torn) -> File:
        if fate == "lost":
            return file
        if operation.kind == "chmod":
            return replace(file, mode=operation.mode & 0o7777)
        if operation.kind == "truncate":
            return self.contents.resize(file, operation.size)
        if operation.data is None:
            raise JournalError(
                f"the bytes of operation {operation.n}, a write to {operation.path!r}, were not kept"
            )
        start, end, sized = fate if isinstance(fate, Torn) else (0, 0 if fate == "sized" else operation.size, True)
        file = self.contents.write(file, operation.offset + start, end - start, operation.data + start)
        whole = operation.offset + operation.size
        return self.contents.resize(file, whole) if sized and whole > file.size else file

    def _pending(self, done: int, profile: str) -> Pending:
        at = self._at[profile]
        names = tuple(n for n in self._names[: bisect_left(self._names, done)] if at.get(n, done + 1) > done)
        data: dict[int, Sequence[Operation]] = {}
        for file, numbers in self._numbers.items():
            end = bisect_left(numbers, done)
            if end and at.get(numbers[end - 1], done + 1) > done:
                # What is forced of a file's data is so with all that came before it.
                begin = bisect_left(numbers, True, hi=end, key=lambda n: at.get(n, done + 1) > done)
                data[file] = self.data[file][begin:end]
        return Pending(names, data)

    def _begin(self, start: int) -> Tree:
        """The tree before the window: without what no name leads to and no operation will touch."""
        tree = Tree().changed(
            inodes=[(file, inode) for file, (n, inode) in self.log.made.items() if n < start],
            names=self._doing(n for n in self.log.naming if n < start),
        )
        reached = dict.fromkeys(number for _, number in tree.walk())
        used = dict.fromkeys(op.file for op in self.log.operations[start:] if op.file in tree.inodes)
        modes = {op.file: op.mode & 0o7777 for op in self.log.operations[:start] if op.kind == "chmod"}
        inodes: list[tuple[int, Inode]] = []
        names: list[TreeChange] = []
        for number in reached | used:
            inode = tree.inodes[number]
            if isinstance(inode, Directory):
                names += [TreeChange(number, name, None, to) for name, to in inode.entries.items()]
                inode = Directory(modes.get(number, inode.mode))
            elif isinstance(inode, File):
                for operation in self.log.data.get(number, []):
                    inode = self._applied(inode, operation, "kept") if operation.n < start else inode
            inodes.append((number, inode))
        return Tree().changed(inodes=inodes, names=names)

    def _first(self, file: int) -> File:
        found = self._beginning.inodes.get(file) or self.log.made[file][1]
        assert isinstance(found, File)
        return found

    def _after(self, operation: Operation) -> Tree:
        before, file = self._whole[operation.n], operation.file
        if operation.n in self.log.naming:
            new = [(file, self.log.made[file][1])] if self.log.made.get(file, (-1,))[0] == operation.n else []
            return before.changed(inodes=new, names=self.log.naming[operation.n].changes)
        if file in self.data and operation.kind in ("write", "truncate", "chmod"):
            return before.changed(inodes=[(file, self.file(file, operation.n + 1))])
        inode = before.inodes.get(file)
        if operation.kind == "chmod" and isinstance(inode, Directory):
            return before.changed(inodes=[(file, replace(inode, mode=operation.mode & 0o7777))])
        return before

    def _without_names(self, done: int) -> Tree:
        return self._whole[done].changed(names=self._undoing(self.pending(done, "posix").names))

    def _doing(self, names: Iterable[int]) -> list[TreeChange]:
        return _settled(change for n in names for change in self.log.naming[n].changes)

    def _undoing(self, names: Iterable[int]) -> list[TreeChange]:
        backwards = (change for n in sorted(names, reverse=True) for change in self.log.naming[n].changes)
        return _settled(change._replace(before=change.after, after=change.before) for change in backwards)


def _settled(changes: Iterable[TreeChange]) -> list[TreeChange]:
    """Of several changes of one name the last."""
    return list({(change.directory, change.name): change for change in changes}.values())
