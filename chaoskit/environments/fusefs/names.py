"""`Names`: the requests about names: they look names up, and create, move and remove them.

Each method handles one request and returns the parts of the answer, or raises OSError. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import Any

from chaoskit.environments.fusefs import fuse
from chaoskit.environments.fusefs.fuse import Request
from chaoskit.environments.fusefs.inodes import below
from chaoskit.environments.fusefs.volume import Answer, Volume
from chaoskit.environments.launch.host import call
from chaoskit.protocol.io_journal import Kind

_NOREPLACE, _EXCHANGE = 1, 2


class Names:
    """The names of all files and directories of a volume."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._root = volume.root
        self._inodes = volume.inodes
        self._turn = volume.turn
        self._troubles = volume.troubles

    def lookup(self, request: Request) -> Answer:
        parent, (name,) = self._inodes[request.node], request.names()
        self._volume.meet("lookup", request, (parent, name))
        with self._turn:
            if self._troubles.any_late:
                path, session = below(parent, name), self._volume.session(request)
                if self._troubles.hides("lookup", path, session, thread=request.thread):
                    raise FileNotFoundError(errno.ENOENT, "not known yet")
            inode, found = self._inodes.find(parent, name)
            inode.known += 1
        if inode.behind:
            with inode.lock, self._turn:
                found = self._inodes.stat(inode)
        return (fuse.entry(inode.number + 1, found),)

    def forget(self, request: Request) -> Answer:
        with self._turn:
            self._inodes.forget(request.node, fuse.FORGET.unpack_from(request.body)[0])
        return ()

    def batch_forget(self, request: Request) -> Answer:
        count, _ = fuse.BATCH_FORGET.unpack_from(request.body)
        with self._turn:
            for number in range(count):
                at = fuse.BATCH_FORGET.size + number * fuse.FORGET_ONE.size
                self._inodes.forget(*fuse.FORGET_ONE.unpack_from(request.body, at))
        return ()

    def readlink(self, request: Request) -> Answer:
        inode = self._inodes[request.node]
        self._volume.meet("lookup", request, inode)
        with self._turn:
            return (os.fsencode(os.readlink(inode.path, dir_fd=self._root)),)

    # New ones.

    def mkdir(self, request: Request) -> Answer:
        mode, _ = fuse.MKDIR.unpack_from(request.body)
        return self._make(
            "mkdir",
            request,
            fuse.MKDIR.size,
            lambda path: os.mkdir(path, mode, dir_fd=self._root),
            mode=mode & 0o7777,
        )

    def mknod(self, request: Request) -> Answer:
        mode, device, _, _ = fuse.MKNOD.unpack_from(request.body)
        # What is neither file nor directory has nothing to lose in a crash.
        return self._make(
            "create",
            request,
            fuse.MKNOD.size,
            lambda path: os.mknod(path, mode, device, dir_fd=self._root),
            noted=stat.S_ISREG(mode),
            mode=mode & 0o7777,
        )

    def symlink(self, request: Request) -> Answer:
        _, target = request.names()
        return self._make(
            "symlink", request, 0, lambda path: os.symlink(target, path, dir_fd=self._root), to=target
        )

    def link(self, request: Request) -> Answer:
        inode, parent = self._inodes[fuse.LINK.unpack_from(request.body)[0]], self._inodes[request.node]
        (name,) = request.names(fuse.LINK.size)
        self._volume.meet("link", request, inode, (parent, name))
        with inode.lock, self._turn:
            old, new = inode.path, below(parent, name)
            if not inode.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._naming(
                new, lambda: os.link(old, new, src_dir_fd=self._root, dst_dir_fd=self._root, follow_symlinks=False)
            )
            inode, found = self._inodes.find(parent, name)
            inode.known += 1
            self._volume.note("link", request, inode, path=old, to=new)
            self._volume.named(new, request)
            return (fuse.entry(inode.number + 1, found),)

    def _make(
        self, kind: Kind, request: Request, at: int, do: Callable[[str], None], *, noted: bool = True, **told: Any
    ) -> Answer:
        parent, name = self._inodes[request.node], request.names(at)[0]
        self._volume.meet(kind, request, (parent, name))
        with self._turn:
            path = below(parent, name)
            self._naming(path, lambda: do(path))
            self._volume.give(request, path)
            inode, found = self._inodes.find(parent, name, new=True)
            inode.known += 1
            if noted:
                self._volume.note(kind, request, inode, **told)
            self._volume.named(path, request)
            return (fuse.entry(inode.number + 1, found),)

    def _naming(self, path: str, do: Callable[[], None]) -> None:
        """Run `do`, which creates a name. A session that is refused because the name exists has learnt of it."""
        try:
            do()
        except FileExistsError:
            self._troubles.told(path)
            raise

    # Others instead, and none.

    def unlink(self, request: Request) -> Answer:
        return self._remove("unlink", request, os.unlink)

    def rmdir(self, request: Request) -> Answer:
        return self._remove("rmdir", request, os.rmdir)

    def rename(self, request: Request) -> Answer:
        (target,) = fuse.RENAME.unpack_from(request.body)
        return self._rename(request, target, 0, request.names(fuse.RENAME.size))

    def rename2(self, request: Request) -> Answer:
        target, flags, _ = fuse.RENAME2.unpack_from(request.body)
        return self._rename(request, target, flags, request.names(fuse.RENAME2.size))

    def _remove(self, kind: Kind, request: Request, do: Callable[..., None]) -> Answer:
        parent, (name,) = self._inodes[request.node], request.names()
        self._volume.meet(kind, request, (parent, name))
        with self._turn:
            inode, path = self._inodes.find(parent, name)[0], below(parent, name)
            do(path, dir_fd=self._root)
            self._inodes.gone(parent, name)
            self._volume.note(kind, request, inode, path=path)
            self._troubles.told(path)
        return ()

    def _rename(self, request: Request, target: int, flags: int, names: list[str]) -> Answer:
        if flags & ~(_NOREPLACE | _EXCHANGE):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        old, new = (self._inodes[request.node], names[0]), (self._inodes[target], names[1])
        self._volume.meet("rename", request, old, new)
        with self._turn:
            path, to = below(*old), below(*new)
            inode, _ = self._inodes.find(*old)
            try:
                replaced, _ = self._inodes.find(*new)
            except FileNotFoundError:
                replaced = None
            call("renameat2", self._root, os.fsencode(path), self._root, os.fsencode(to), flags)
            if replaced is inode:  # two names of one file: both stay
                return ()
            told: dict[str, Any] = {"to": to}
            if replaced is not None:
                told["replaced"] = replaced.number
            if flags & _EXCHANGE:
                self._inodes.swapped(old, new)
                told["exchange"] = True
            else:
                self._inodes.moved(inode, old, new)
            self._volume.note("rename", request, inode, path=path, **told)
            if replaced is None:
                self._volume.named(to, request)
        return ()
