"""The storekeeper: the process that serves the file system over a job's `{out}`, and makes it fail when asked to.

A script (`python -I -S storekeeper.py RUN_ID`, standard library only). It mounts the file system in a namespace of its
own, which the job enters: nobody else sees it, and it is gone with the last process in there. What lies beneath it has
open since before the mount, and it touches no path of the mount, for it would wait for itself. It answers JSON lines on
its standard input, a socket, as the holder does, and goes with the harness.
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
    _path = os.path.join(os.path.dirname(_own), "importable.py")
    with open(_path) as _file:
        exec(_file.read(), {"__file__": _path})

from chaoskit.capabilities import Trouble
from chaoskit.environments import fuse
from chaoskit.environments.archivist import Archivist
from chaoskit.environments.beneath import Beneath
from chaoskit.environments.fuse import Buffers, Connection, Op
from chaoskit.environments.journalist import Journalist
from chaoskit.environments.service import serve
from chaoskit.environments.sights import Sights
from chaoskit.environments.troubles import Troubles
from chaoskit.environments.volume import Volume
from chaoskit.launch.host import KINDS, call

_ENOSYS, _EIO = 38, 5
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
#: How many threads wait for requests when there are none.
_IDLE = 3
#: How many buffers are at hand for what is to be kept, where it is.
_AT_HAND = 128


class Storekeeper:
    """What the harness asks for, by the names of the methods. They raise OSError, LookupError and ValueError."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._troubles = Troubles()
        self._sights = Sights()
        self._beneath: Beneath | None = None

    def begin(self, out: str, beneath: str, journal: str, recorded: bool, sights: bool) -> dict[str, Any]:
        """Serve the file system from now on; the namespaces in which it is, for `chaoskit.launch.host`."""
        root = os.open(beneath, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        Path(journal).mkdir(parents=True, exist_ok=True)
        journalist = Journalist(Path(journal))
        os.umask(0)
        in_user = _unshare()
        fd = os.open(fuse.DEVICE, os.O_RDWR | os.O_CLOEXEC)
        fuse.mount(fd, out, source=f"chaoskit-{self._run_id}", for_all=not in_user)
        connection = Connection(fd)
        connection.begin()
        buffers = Buffers()
        archivist = Archivist(Path(journal)) if recorded else None  # it has a thread, and only one may unshare
        volume = Volume(root, journalist, archivist, self._troubles, self._sights if sights else None)
        self._beneath = Beneath(volume, connection, buffers)
        gc.freeze()
        gc.disable()  # nothing here refers to itself
        Servants(connection, buffers, self._beneath, self._troubles).begin()
        if recorded:
            threading.Thread(target=buffers.provide, args=(_AT_HAND,), daemon=True).start()
        me = f"/proc/{os.getpid()}/ns"
        return {"host": {kind: f"{me}/{kind}" for kind in (("user", "mnt") if in_user else ("mnt",))}}

    def settle(self) -> None:
        """Wait until all that was answered lies beneath, and is in the journal."""
        if self._beneath is not None:
            self._beneath.settle()

    def seen(self) -> list[tuple[str, str]]:
        """What was looked at so far, and where."""
        return self._sights.told()

    def fail(self, trouble: dict[str, Any]) -> int:
        """See `CanFailStorage`."""
        return self._troubles.fail(Trouble(**trouble | {"operations": tuple(trouble["operations"])}))

    def mend(self, trouble: int) -> None:
        """See `CanFailStorage`."""
        self._troubles.mend(trouble)

    def met(self, trouble: int) -> dict[str, Any]:
        """See `CanFailStorage`."""
        return self._troubles.met(trouble)


class Servants:
    """Threads that serve requests: always some that wait, however many are being held back."""

    def __init__(self, connection: Connection, buffers: Buffers, beneath: Beneath, troubles: Troubles) -> None:
        self._connection = connection
        self._buffers = buffers
        self._troubles = troubles
        self._methods = beneath.methods
        self._turn = threading.Lock()
        self._idle = 0

    def begin(self) -> None:
        """Begin to serve."""
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


def _unshare() -> bool:
    """Go to a mount namespace of our own, where nothing that is mounted is seen elsewhere; whether that took a user
    namespace. Raises OSError."""
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
    _storekeeper = Storekeeper(sys.argv[1])
    serve(socket.socket(fileno=0), _storekeeper)
    _storekeeper.settle()
    os._exit(0)  # the threads wait for the kernel
