"""Sight: what a job has looked at of a state. A state that looks the same there is the same to the job.

A job that does the same again where it sees the same cannot tell two states apart that differ only in what it never
looks at, such as how far the temporary file had been written that it removes. So what it made of one it makes of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from chaoskit.analysis.crash_model.contents import File
from chaoskit.analysis.crash_model.tree import Directory, Tree

What = Literal["name", "size", "names", "content"]
#: From what is soonest compared.
_ORDER: tuple[What, ...] = ("name", "names", "size", "content")


class Access(NamedTuple):
    """One look at a path, relative to the root. Each kind tells what the kinds before it tell:

    - `name`: whether there is such a name, and whether it is a file, a directory or a symlink, and that one's target;
    - `names`: of a directory, all names that are in it, and what they are;
    - `size`: the mode, and of a file its size;
    - `content`: all of it, and all that is below it.
    """

    what: What
    path: str


@dataclass(frozen=True)
class ObservedState:
    """What was seen in a state, look by look."""

    seen: tuple[tuple[Access, object], ...]

    @classmethod
    def of(cls, tree: Tree, looks: Iterable[Access]) -> ObservedState:
        """What these looks show of a tree."""
        ordered = sorted(set(looks), key=lambda look: (_ORDER.index(look.what), look.path))
        return cls(tuple((look, show(tree, look)) for look in ordered))

    def fits(self, tree: Tree) -> bool:
        """Whether the same looks show the same of another tree. Not where files have several names: a job may write by
        one name and read by another."""
        if any(len(names) > 1 for names in tree.names.values()):
            return False
        return all(show(tree, look) == shown for look, shown in self.seen)


def show(tree: Tree, look: Access) -> object:
    """What one look shows; None if there is no such path."""
    number = tree.find(look.path)
    if number is None:
        return None
    inode = tree.inodes[number]
    if look.what == "content":
        return inode.digest
    if isinstance(inode, Directory):
        if look.what == "names":
            return frozenset((name, _kind(tree, number)) for name, number in inode.entries.items())
        return ("directory", inode.mode) if look.what == "size" else "directory"
    if isinstance(inode, File):
        return ("file", inode.mode, inode.size) if look.what == "size" else "file"
    return ("symlink", inode.to)


def _kind(tree: Tree, number: int) -> str:
    return type(tree.inodes[number]).__name__
