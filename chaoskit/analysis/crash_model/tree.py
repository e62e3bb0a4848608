"""`Tree`: a directory and all that lies in it, at one instant. A changed tree shares with the one before what is alike.

Names point to numbers and numbers to inodes, as on a disk. What no name leads to is kept, and counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import xxhash

from chaoskit.analysis.crash_model.contents import SUMS, File

ROOT = 0


@dataclass(frozen=True)
class Directory:
    """Names and the numbers that they point to. `total` is the sum over what is in it, all the way down."""

    mode: int = 0o755
    entries: Mapping[str, int] = field(default_factory=dict)
    total: int = 0

    @cached_property
    def digest(self) -> int:
        """The same for two directories exactly when all below them is the same."""
        return xxhash.xxh3_128_intdigest(_bytes(f"directory {self.mode:o} {self.total}"))


@dataclass(frozen=True)
class Symlink:
    """A symlink and what it says."""

    to: str

    @cached_property
    def digest(self) -> int:
        """The same for two symlinks exactly when they say the same."""
        return xxhash.xxh3_128_intdigest(_bytes(f"symlink {self.to}"))


Inode = File | Directory | Symlink


class TreeChange(NamedTuple):
    """In a directory, what a name points to: before and after, None where there is no such name."""

    directory: int
    name: str
    before: int | None
    after: int | None


class Tree:
    """The tree below an empty root, until it is changed. A tree itself never changes."""

    def __init__(self) -> None:
        self.inodes: dict[int, Inode] = {ROOT: Directory()}
        self.names: dict[int, frozenset[tuple[int, str]]] = {}

    def changed(self, *, inodes: Iterable[tuple[int, Inode]] = (), names: Iterable[TreeChange] = ()) -> Tree:
        """The tree with these inodes, new ones or others than before, and with each name leading to its `after`."""
        tree = Tree.__new__(Tree)
        tree.inodes, tree.names = dict(self.inodes), self.names
        for number, inode in inodes:
            tree._set(number, inode)
        if changes := list(names):
            tree.names = dict(self.names)
            for change in changes:
                tree._point(change.directory, change.name, change.after)
        return tree

    def digest(self) -> str:
        """The same for two trees exactly when names, modes, bytes, and which names are one file, are the same."""
        several = [where for where in self.names.values() if len(where) > 1]
        shared = sorted(sorted(path for at in where for path in self._paths(at)) for where in several)
        text = f"{self.inodes[ROOT].digest:x} {[paths for paths in shared if len(paths) > 1]}"
        return xxhash.xxh3_128_hexdigest(_bytes(text))

    def find(self, path: str) -> int | None:
        """The number that a path leads to, None where there is no such path. Symlinks are not followed."""
        number: int | None = ROOT
        for name in filter(None, path.split("/")):
            inode = self.inodes.get(number) if number is not None else None
            number = inode.entries.get(name) if isinstance(inode, Directory) else None
        return number

    def paths(self, number: int) -> list[str]:
        """Every path that leads to this number, in order; none if nothing does."""
        if number == ROOT:
            return [""]
        return sorted(path for at in self.names.get(number, ()) for path in self._paths(at))

    def walk(self, path: str = "", number: int = ROOT) -> Iterator[tuple[str, int]]:
        """All below a directory, itself included: a directory before what is in it, names in order."""
        yield path, number
        inode = self.inodes[number]
        if isinstance(inode, Directory):
            for name in sorted(inode.entries):
                yield from self.walk(f"{path}/{name}" if path else name, inode.entries[name])

    def _paths(self, at: tuple[int, str]) -> Iterator[str]:
        directory, name = at
        for above in self.paths(directory):
            yield f"{above}/{name}" if above else name

    def _set(self, number: int, inode: Inode) -> None:
        before = self.inodes.get(number)
        self.inodes[number] = inode
        if before is None or before.digest == inode.digest:
            return
        for directory, name in self.names.get(number, ()):
            above = self._directory(directory)
            total = above.total - _term(name, before.digest) + _term(name, inode.digest)
            self._set(directory, Directory(above.mode, above.entries, total % SUMS))

    def _point(self, directory: int, name: str, number: int | None) -> None:
        above = self._directory(directory)
        entries, total = dict(above.entries), above.total
        before = entries.pop(name, None)
        if before is not None:
            total -= _term(name, self.inodes[before].digest)
            self.names[before] -= {(directory, name)}
        if number is not None:
            entries[name] = number
            total += _term(name, self.inodes[number].digest)
            self.names[number] = self.names.get(number, frozenset()) | {(directory, name)}
        self._set(directory, Directory(above.mode, entries, total % SUMS))

    def _directory(self, number: int) -> Directory:
        found = self.inodes[number]
        assert isinstance(found, Directory)
        return found


def _term(name: str, digest: int) -> int:
    return xxhash.xxh3_128_intdigest(_bytes(f"{digest:x} {name}"))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
