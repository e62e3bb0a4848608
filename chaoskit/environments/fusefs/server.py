"""The file system server: serves the file system over a job's `{out}`, and makes it fail on request.

A script (`python -I -S server.py RUN_ID`, standard library only). It mounts the file system in a mount namespace
that the job enters: no other process sees it, and it disappears with the last process in there. It opened the
source directory before the mount, and uses no path below the mount: it would wait for itself. It answers JSON lines
on its standard input, a socket, as the netns helper does, and ends with the harness.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    _own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _own]
    _path = os.path.join(os.path.dirname(os.path.dirname(_own)), "protocol", "bootstrap.py")
    with open(_path) as _file:
        exec(_file.read(), {"__file__": _path})

from chaoskit.capabilities import InjectedIOError
from chaoskit.environments.fusefs import fuse
from chaoskit.environments.fusefs.access_log import AccessLog
from chaoskit.environments.fusefs.dispatcher import OperationDispatcher
from chaoskit.environments.fusefs.fuse import Buffers, Connection, Op
from chaoskit.environments.fusefs.injected_errors import InjectedIOErrors
from chaoskit.environments.fusefs.journal_writer import JournalWriter
from chaoskit.environments.fusefs.volume import Volume
from chaoskit.environments.fusefs.written_data import WrittenDataStore
from chaoskit.environments.launch.host import KINDS, call
from chaoskit.environments.machine.serve import serve

_ENOSYS, _EIO = 38, 5
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_MNT_DETACH = 2
#: How many threads wait for requests when there are none.
_IDLE = 3
#: How many buffers are at hand for what is to be kept, where it is.
_AT_HAND = 128


class FuseServer:
    """The requests of the harness, by the names of the methods. They raise OSError, LookupError and ValueError."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._troubles = InjectedIOErrors()
        self._access_log = AccessLog()
        self._dispatcher: OperationDispatcher | None = None
        self._mounted: str | None = None

    def begin(
        self, out: str, source: str, journal: str, recorded: bool, log_accesses: bool, within: dict[str, str] | None
    ) -> dict[str, Any]:
        """Serve the file system from now on. Returns the namespaces that it is in, for
        `chaoskit.environments.launch.host`.
        """
        root = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        Path(journal).mkdir(parents=True, exist_ok=True)
        journal_writer = JournalWriter(Path(journal))
        os.umask(0)
        in_user = _unshare() if within is None else _enter(within)
        fd = os.open(fuse.DEVICE, os.O_RDWR | os.O_CLOEXEC)
        fuse.mount(fd, out, source=f"chaoskit-{self._run_id}", for_all=not in_user)
        connection = Connection(fd)
        connection.begin()
        buffers = Buffers()
        data_store = (
            WrittenDataStore(Path(journal)) if recorded else None
        )  # it has a thread, and only one may unshare
        volume = Volume(root, journal_writer, data_store, self._troubles, self._access_log if log_accesses else None)
        self._dispatcher = OperationDispatcher(volume, connection, buffers)
        self._mounted = out if within is not None else None
        gc.freeze()
        gc.disable()  # nothing here refers to itself
        WorkerPool(connection, buffers, self._dispatcher, self._troubles).begin()
        if recorded:
            threading.Thread(target=buffers.provide, args=(_AT_HAND,), daemon=True).start()
        me = f"/proc/{os.getpid()}/ns"
        return {"host": {kind: f"{me}/{kind}" for kind in (("user", "mnt") if in_user else ("mnt",))}}

    def end(self) -> None:
        """Write everything that was answered to disk, and unmount the file system from namespaces of others."""
        self.settle()
        if self._mounted is not None:
            call("umount2", os.fsencode(self._mounted), _MNT_DETACH)

    def settle(self) -> None:
        """Wait until everything that was answered is in the source directory and in the journal."""
        if self._dispatcher is not None:
            self._dispatcher.settle()

    def seen(self) -> list[tuple[str, str]]:
        """What was read so far, and where."""
        return self._access_log.told()

    def fail(self, trouble: dict[str, Any]) -> int:
        """See `CanFailStorage`."""
        lists = {name: tuple(trouble[name]) for name in ("operations", "nodes")}
        return self._troubles.fail(InjectedIOError(**{**trouble, **lists}))

    def know(self, node: str, network: int) -> None:
        """Attribute requests from a network namespace to a node."""
        self._troubles.know(node, network)

    def mend(self, trouble: int) -> None:
        """See `CanFailStorage`."""
        self._troubles.mend(trouble)

    def met(self, trouble: int) -> dict[str, Any]:
        """See `CanFailStorage`."""
        return self._troubles.met(trouble)


class WorkerPool:
    """Threads that serve requests. Some are always idle, however many requests are delayed."""

    def __init__(
        self, connection: Connection, buffers: Buffers, dispatcher: OperationDispatcher, troubles: InjectedIOErrors
    ) -> None:
        self._connection = connection
        self._buffers = buffers
        self._troubles = troubles
        self._methods = dispatcher.methods
        self._turn = threading.Lock()
        self._idle = 0

    def begin(self) -> None:
        """Start the threads."""
        for _ in range(_IDLE):
            self._hire()

    def _hire(self) -> None:
        self._idle += 1
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        buffer = self._buffers.take()
        while (request := self._connection.receive(buffer)) is not None:
            with self._turn:
                self._idle -= 1
                if not self._idle:
                    self._hire()
            self._do(request)
            buffer = request.buffer
            with self._turn:
                if self._idle >= _IDLE:
                    break
                self._idle += 1
        self._buffers.give(buffer)

    def _do(self, request: fuse.Request) -> None:
        if request.op == Op.INTERRUPT:
            self._troubles.interrupt(*fuse.INTERRUPT.unpack_from(request.body))
            return
        method = self._methods.get(request.op)
        answered = request.op not in fuse.UNANSWERED
        try:
            if method is None:
                raise OSError(_ENOSYS, "")
            data = method(request)
        except OSError as error:
            number = error.errno or _EIO
        except KeyError:
            number = 116  # ESTALE: what is forgotten
        except BaseException:
            traceback.print_exc()
            number = _EIO
        else:
            if answered and data is not None:
                self._connection.answer(request, *data)
            return
        if answered:
            self._connection.refuse(request, number)


def _enter(within: dict[str, str]) -> bool:
    """Enter these namespaces. Returns whether one of them is a user namespace. Raises OSError."""
    for kind in (kind for kind in KINDS if kind in within):
        fd = os.open(within[kind], os.O_RDONLY | os.O_CLOEXEC)
        try:
            call("setns", fd, KINDS[kind])
        finally:
            os.close(fd)
    return "user" in within


def _unshare() -> bool:
    """Make and enter a mount namespace whose mounts nobody else sees. Returns whether that took a user namespace.
    Raises OSError.
    """
    try:
        call("unshare", KINDS["mnt"])
        in_user = False
    except PermissionError:
        uid, gid = os.geteuid(), os.getegid()
        call("unshare", KINDS["user"])
        for name, text in (("uid_map", f"{uid} {uid} 1"), ("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1")):
            Path("/proc/self", name).write_text(text)
        call("unshare", KINDS["mnt"])
        in_user = True
    call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    return in_user


if __name__ == "__main__":
    _server = FuseServer(sys.argv[1])
    serve(socket.socket(fileno=0), _server)
    _server.end()
    os._exit(0)  # the threads wait for the kernel
