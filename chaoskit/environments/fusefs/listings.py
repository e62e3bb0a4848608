"""`Listings`: the requests that list directories.

Standard library only.
"""

from __future__ import annotations

import os
import stat

from chaoskit.environments.fusefs import fuse
from chaoskit.environments.fusefs.fuse import Request
from chaoskit.environments.fusefs.handles import Handle, Handles
from chaoskit.environments.fusefs.volume import Answer, Volume

_KINDS_OF_FILES = ((stat.S_IFDIR, "is_dir"), (stat.S_IFREG, "is_file"))


class Listings:
    """The listings of all open directories of a volume. A listing is made when it is begun, and does not change."""

    def __init__(self, volume: Volume, handles: Handles) -> None:
        self._volume = volume
        self._handles = handles

    def readdir(self, request: Request) -> Answer:
        """The parts of the answer; raises OSError."""
        fd, offset, size, *_ = fuse.TRANSFER.unpack_from(request.body)
        handle = self._handles[fd]
        if offset == 0:
            self._volume.meet("list", request, handle.inode)
            handle.listed = self._list(request, handle)
        taken = []
        for packed in handle.listed[offset:]:
            size -= len(packed)
            if size < 0:
                break
            taken.append(packed)
        return (b"".join(taken),)

    def _list(self, request: Request, handle: Handle) -> list[bytes]:
        troubles = self._volume.troubles
        with self._volume.turn, os.scandir(handle.fd) as found:
            entries = list(found)
        if troubles.any_late:
            path, session = handle.inode.path, self._volume.session(request)
            before = f"{path}/" if path else ""
            asks = {"session": session, "thread": request.thread}
            entries = [each for each in entries if not troubles.hides("list", before + each.name, **asks)]
        own = os.fstat(handle.fd).st_ino
        told = [(own, ".", stat.S_IFDIR), (own, "..", stat.S_IFDIR)]
        told += [(each.inode(), each.name, _type(each)) for each in entries]
        return [fuse.dirent(ino, at, name, kind >> 12) for at, (ino, name, kind) in enumerate(told, start=1)]


def _type(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    for kind, says in _KINDS_OF_FILES:
        if getattr(entry, says)(follow_symlinks=False):
            return kind
    return 0
