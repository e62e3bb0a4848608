"""`AccessLog`: what processes have read in our file system, in the terms of
`chaoskit.analysis.crash_model.observed`.

A request may ask for more than the job used, so the log may hold more than the job saw. Then two states are kept
apart that the job could not distinguish; the opposite never happens. Standard library only.
"""

from __future__ import annotations

from chaoskit.environments.fusefs.fuse import Op

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


class AccessLog:
    """The accesses so far, as pairs of what was read and where."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def note(self, op: int, paths: tuple[str, ...]) -> None:
        """Record a request of that kind about these files."""
        self._seen.update(zip(_SHOWN.get(op, ()), paths, strict=False))

    def told(self) -> list[tuple[str, str]]:
        """All accesses."""
        return sorted(self._seen)
