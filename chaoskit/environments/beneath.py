"""`Beneath`: the file system itself: every request is carried out on the directory beneath, and noted if it changed or
forced anything.

Each of its parts serves the requests about one thing. What they share is the volume. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from chaoskit.environments.attributes import Attributes
from chaoskit.environments.data import Data
from chaoskit.environments.fuse import Buffers, Connection, Op, Request
from chaoskit.environments.handles import Handles
from chaoskit.environments.listings import Listings
from chaoskit.environments.names import Names
from chaoskit.environments.volume import Answer, Volume

Method = Callable[[Request], Answer | None]


class Beneath:
    """Serves a volume, behind a connection whose requests are received in `buffers`.

    `methods` has the method for each request: it returns the parts of the answer, or None where it has answered
    already, or raises OSError. What is not there, the kernel is told once that it does not exist. Attributes beyond the
    ordinary are among that, for it would ask for one before every write, and flushes: with no cache of writes there is
    nothing to flush.
    """

    def __init__(self, volume: Volume, connection: Connection, buffers: Buffers) -> None:
        names, attributes = Names(volume), Attributes(volume)
        handles = Handles(volume, connection)
        listings, data = Listings(volume, handles), Data(volume, handles, connection, buffers)
        self.methods: dict[int, Method] = {
            Op.LOOKUP: names.lookup,
            Op.FORGET: names.forget,
            Op.BATCH_FORGET: names.batch_forget,
            Op.READLINK: names.readlink,
            Op.MKDIR: names.mkdir,
            Op.MKNOD: names.mknod,
            Op.SYMLINK: names.symlink,
            Op.LINK: names.link,
            Op.UNLINK: names.unlink,
            Op.RMDIR: names.rmdir,
            Op.RENAME: names.rename,
            Op.RENAME2: names.rename2,
            Op.GETATTR: attributes.getattr,
            Op.SETATTR: attributes.setattr,
            Op.STATFS: attributes.statfs,
            Op.OPEN: handles.open,
            Op.CREATE: handles.create,
            Op.OPENDIR: handles.opendir,
            Op.FSYNC: handles.fsync,
            Op.FSYNCDIR: handles.fsyncdir,
            Op.RELEASE: handles.release,
            Op.RELEASEDIR: handles.release,
            Op.READDIR: listings.readdir,
            Op.READ: data.read,
            Op.WRITE: data.write,
            Op.LSEEK: data.lseek,
            Op.FALLOCATE: data.fallocate,
        }
        self._data = data

    def settle(self) -> None:
        """Wait until all that was answered lies beneath, and is in the journal."""
        self._data.settle()
