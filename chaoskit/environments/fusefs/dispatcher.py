"""`OperationDispatcher`: the file system itself: it carries out every request on the source directory, and records
those that change it. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from chaoskit.environments.fusefs.attributes import Attributes
from chaoskit.environments.fusefs.data import Data
from chaoskit.environments.fusefs.fuse import Buffers, Connection, Op, Request
from chaoskit.environments.fusefs.handles import Handles
from chaoskit.environments.fusefs.listings import Listings
from chaoskit.environments.fusefs.names import Names
from chaoskit.environments.fusefs.volume import Answer, Volume

Method = Callable[[Request], Answer | None]


class OperationDispatcher:
    """Serves a volume over a connection whose requests are received in `buffers`.

    `methods` maps each kind of request to its method, which returns the parts of the answer, or None if it has
    answered already, or raises OSError. The kernel learns once which kinds do not exist. Extended attributes are
    among these, since the kernel would ask for one before every write, and so are flushes: without a cache of
    writes there is nothing to flush.
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
        """Wait until everything that was answered is in the source directory and in the journal."""
        self._data.settle()
