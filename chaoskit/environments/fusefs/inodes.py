"""`Inodes`: the files of a directory, each with a number that it keeps under all its names.

Files are reached by name from the source directory; a file without a name through an open handle. Numbers count
from 0, the root; the journal uses the same ones, and none is used twice. Standard library only.
"""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False, slots=True)
class Inode:
    """One file or directory. `names`: directory and name of each link; `home`: the last ones. `handles`:
    descriptors that have it open. `known`: how often the kernel was told of it. A thread that changes the content
    holds `lock`. `behind`: a write that was already answered is in progress; `queue` holds the writes after it.
    """

    number: int
    key: tuple[int, int]
    home: tuple[Inode, str] | None = None
    names: dict[tuple[Inode, str], None] = field(default_factory=dict)
    handles: set[int] = field(default_factory=set)
    known: int = 0
    behind: bool = False
    queue: list[Any] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def path(self) -> str:
        """Where it is, or was last, from the root."""
        parts: list[str] = []
        home = self.home
        while home is not None:
            parts.append(home[1])
            home = home[0].home
        return "/".join(reversed(parts))


class Inodes:
    """The inodes of the directory that is open as `root`. Not thread-safe."""

    def __init__(self, root: int) -> None:
        self.root = root
        found = os.fstat(root)
        first = Inode(0, (found.st_dev, found.st_ino))
        self._numbered: dict[int, Inode] = {0: first}
        self._named: dict[tuple[Inode, str], Inode] = {}
        self._by_key: dict[tuple[int, int], Inode] = {first.key: first}
        self._next = 1

    def __getitem__(self, node: int) -> Inode:
        """By the kernel's number, which is ours plus 1."""
        return self._numbered[node - 1]

    def find(self, parent: Inode, name: str, *, new: bool = False) -> tuple[Inode, os.stat_result]:
        """The file of that name, which has just been made if it is `new`. Raises OSError if there is none.

        The harness makes and removes files itself, so the known names may be out of date.
        """
        try:
            found = os.stat(below(parent, name), dir_fd=self.root, follow_symlinks=False)
        except FileNotFoundError:
            self.gone(parent, name)  # where the harness has removed it
            raise
        key = (found.st_dev, found.st_ino)
        inode = self._by_key.get(key)
        if inode is not None and (new or (found.st_nlink == 1 and not stat.S_ISDIR(found.st_mode))):
            for old in [each for each in inode.names if new or each != (parent, name)]:
                del self._named[old], inode.names[old]
        if inode is None or new:
            inode = self._by_key[key] = self._numbered[self._next] = Inode(self._next, key)
            self._next += 1
        if self._named.get((parent, name)) is not inode:
            self.gone(parent, name)
            self._name(inode, parent, name)
        return inode, found

    def moved(self, inode: Inode, old: tuple[Inode, str], new: tuple[Inode, str]) -> None:
        """It was renamed; what had the new name has it no longer."""
        self.gone(*new)
        self._named.pop(old, None)
        inode.names.pop(old, None)
        self._name(inode, *new)

    def swapped(self, one: tuple[Inode, str], other: tuple[Inode, str]) -> None:
        """Two names were exchanged."""
        first, second = self._named.pop(one), self._named.pop(other)
        first.names.pop(one, None)
        second.names.pop(other, None)
        self._name(first, *other)
        self._name(second, *one)

    def gone(self, parent: Inode, name: str) -> None:
        """That name is no longer there."""
        inode = self._named.pop((parent, name), None)
        if inode is None:
            return
        inode.names.pop((parent, name), None)
        if inode.names:
            inode.home = next(reversed(inode.names))
        self._let_go(inode)

    def forget(self, node: int, times: int) -> None:
        """The kernel has so many references less."""
        inode = self._numbered.get(node - 1)
        if inode is not None:
            inode.known -= times
            self._let_go(inode)

    def closed(self, inode: Inode, handle: int) -> None:
        """That descriptor is being closed."""
        inode.handles.discard(handle)
        self._let_go(inode)

    def stat(self, inode: Inode) -> os.stat_result:
        """Raises OSError where it has neither a name nor a handle."""
        if inode.handles:
            return os.fstat(next(iter(inode.handles)))
        return os.stat(inode.path or ".", dir_fd=self.root, follow_symlinks=False)

    def _name(self, inode: Inode, parent: Inode, name: str) -> None:
        self._named[parent, name] = inode
        inode.names[parent, name] = None
        inode.home = (parent, name)

    def _let_go(self, inode: Inode) -> None:
        if inode.number and not inode.names and not inode.handles:
            if self._by_key.get(inode.key) is inode:
                del self._by_key[inode.key]  # the next file may get the same from the disk
            if inode.known <= 0:
                self._numbered.pop(inode.number, None)


def below(parent: Inode, name: str) -> str:
    """The path of that name in a directory."""
    path = parent.path
    return f"{path}/{name}" if path else name
