"""`Sights`: what the processes in our file system have looked at, as `chaoskit.crash.sight` has it.

A request tells more than was asked for, and more is noted than was looked at: then two states are told apart that a job
could not tell apart, and never the other way round. Standard library only.
"""

from __future__ import annotations

from chaoskit.environments.fuse import Op

#: What is seen of the files that a request is about, in their order.
_SHOWN: dict[int, tuple[str, ...]] = {
    Op.LOOKUP: ("name",),
    Op.GETATTR: ("size",),
    Op.SETATTR: ("size",),
    Op.READLINK: ("name",),
    Op.OPEN: ("content",),
    Op.READ: ("content",),
    Op.CREATE: ("content",),
    Op.MKNOD: ("name",),
    Op.MKDIR: ("name",),
    Op.SYMLINK: ("name",),
    Op.OPENDIR: ("name",),
    Op.READDIR: ("names",),
    Op.UNLINK: ("name",),
    Op.RMDIR: ("names",),
    # What goes by another name from now on may be looked at under that.
    Op.RENAME: ("content", "names"),
    Op.RENAME2: ("content", "content"),
    Op.LINK: ("content", "name"),
}


class Sights:
    """What was seen so far: pairs of what and where."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def note(self, op: int, paths: tuple[str, ...]) -> None:
        """A request of that kind was about these files."""
        self._seen.update(zip(_SHOWN.get(op, ()), paths, strict=False))

    def told(self) -> list[tuple[str, str]]:
        """All of it."""
        return sorted(self._seen)
