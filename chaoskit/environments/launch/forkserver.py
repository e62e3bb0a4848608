"""The warm parent: an interpreter that has imported torch and other installed packages, and forks keepers on
request, whose commands start at once.

A script, started by `warm.Parent` in the job's environment. It has one thread, uses no accelerator, and imports no
module of the user's own. A client connects to its socket and sends JSON lines: `{"import": [names]}` (answered
`{"fit": true}` or `{"unfit": reason}`) or, along with the socket of a launch, `{"keep": run_id}` (answered
`{"keeper": pid}`, or `{"unfit": reason}`). It exits when no client is connected any more.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

if __name__ == "__main__":
    _own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _own]
    _path = os.path.join(os.path.dirname(os.path.dirname(_own)), "protocol", "bootstrap.py")
    with open(_path) as _file:
        exec(_file.read(), {"__file__": _path})

from chaoskit.environments.launch import control_groups, fresh, host, hugepages, keeper, roles
from chaoskit.environments.launch.agent_time import save_time
from chaoskit.environments.launch.forker import Forker, serve_agent
from chaoskit.environments.launch.program import Program
from chaoskit.protocol.json_lines import LineBuffer, encode

#: Device files of accelerators: who has one open cannot share it with a fork.
_ACCELERATORS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/neuron", "/dev/davinci", "/dev/hl")

#: Threads, by name, whose library starts them anew in a fork: jemalloc's, which pyarrow, and so pandas, brings along.
_BORN_AGAIN = ("jemalloc_bg_thd",)


@dataclass
class Client:
    """A connected client; `pid` is its process."""

    line: socket.socket
    pid: int
    buffer: LineBuffer = field(default_factory=LineBuffer)
    fds: list[int] = field(default_factory=list)


class ForkServer:
    """Takes requests one after another, however long an import takes."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._clients: dict[int, Client] = {}
        self._keepers: dict[int, int] = {}
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._origin = roles.ProcessOrigin(tuple(sys.path), _given())
        self._failed: set[str] = set()
        #: Why this process must not be forked any more, since what some client had it import.
        self._reason: str | None = None

    def serve(self) -> None:
        """Until the last client has left."""
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._listener.fileno():
                    self._greet()
                elif fd in self._keepers:
                    self._reap(fd)
                elif fd in self._clients and not self._hear(self._clients[fd]) and not self._clients:
                    os._exit(0)

    def _greet(self) -> None:
        line, _ = self._listener.accept()
        pid, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != os.getuid():
            line.close()
            return
        self._clients[line.fileno()] = Client(line, pid)
        self._poll.register(line, select.POLLIN)

    def _reap(self, fd: int) -> None:
        self._poll.unregister(fd)
        os.close(fd)
        os.waitpid(self._keepers.pop(fd), 0)

    def _hear(self, client: Client) -> bool:
        """Take what a client says; False once it has left."""
        try:
            data, fds, *_ = socket.recv_fds(client.line, 1 << 16, 4)
        except ConnectionError:
            data, fds = b"", []
        client.fds += fds
        for line in client.buffer.feed(data):
            self._answer(client, json.loads(line))
        if not data:
            self._poll.unregister(client.line)
            del self._clients[client.line.fileno()]
            client.line.close()
        return bool(data)

    def _answer(self, client: Client, request: dict[str, Any]) -> None:
        if "import" in request:
            reason = self._import(request["import"])
            answer: dict[str, Any] = {"fit": True} if reason is None else {"unfit": reason}
        elif self._reason is not None:
            # Another client had it import something since this one was told that it is fit.
            os.close(client.fds.pop(0))
            answer = {"unfit": self._reason}
        else:
            answer = {"keeper": self._keep(client, str(request["keep"]))}
        with suppress(ConnectionError):  # a client that has left learns it from nobody
            client.line.sendall(encode(answer))

    def _import(self, names: list[str]) -> str | None:
        """Import what is not imported yet; why this process must not be forked, None if it may."""
        missing = [name for name in names if name not in sys.modules and name not in self._failed]
        for name in missing:
            try:
                importlib.import_module(name)
            except BaseException:  # a rank that wants it will say why it cannot be had
                self._failed.add(name)
        if missing:
            _look_ahead()
            gc.collect()
            gc.freeze()  # or the first collection in each child would copy every page
            hugepages.collapse()
        self._reason = _unfit()
        return self._reason

    def _keep(self, client: Client, run_id: str) -> int:
        """Fork a keeper for the launch whose socket came along."""
        line = client.fds.pop(0)
        pid = os.fork()
        if pid == 0:
            self._let_go()
            origin, harness = self._origin, client.pid
            raise roles.Become(lambda: keep(line, harness, run_id, origin))
        os.close(line)
        fd = os.pidfd_open(pid)
        self._keepers[fd] = pid
        self._poll.register(fd, select.POLLIN)
        return pid

    def _let_go(self) -> None:
        """In a fork: close what is ours."""
        self._listener.close()
        for client in self._clients.values():
            client.line.close()
        for fd in self._keepers:
            os.close(fd)


def keep(line: int, harness: int, run_id: str, origin: roles.ProcessOrigin) -> None:
    """The role of a keeper; see there. Its command is forked from it."""
    os.setsid()
    os.dup2(line, 0)
    os.close(line)
    fresh.name((sys.executable, keeper.__file__, run_id), env=dict(os.environ))

    def begin(order: dict[str, Any]) -> int:
        os.stat(order["cwd"])
        program = Program.from_json(order["program"])
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            kept.let_go()
            _redirect(log)
            control_groups.join(order.get("groups") or ())
            if order.get("host"):
                host.enter(order["host"], order["cwd"])
            raise roles.Become(lambda: _command(program, order["env"], order["cwd"], origin, run_id))
        with suppress(OSError):  # it may have done so itself, and gone
            os.setpgid(pid, pid)
        os.close(log)
        return pid

    kept = keeper.Keeper(harness=harness, begin=begin)
    kept.run()
    roles.leave()


def _command(program: Program, env: dict[str, str], cwd: str, origin: roles.ProcessOrigin, run_id: str) -> None:
    """The role of what an order asks for."""
    if program.is_launcher:
        serve_agent(Forker(origin, run_id=run_id))
        save_time()
        roles.end_after(lambda: roles.be(program, env=env, cwd=cwd, origin=origin))
    roles.be(program, env=env, cwd=cwd, origin=origin)


def _redirect(log: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for number, fd in enumerate((null, log, log)):
        os.dup2(fd, number)
    os.close(null)
    os.close(log)


def _look_ahead() -> None:
    """Have the probe find out now what each fork would need to."""
    from chaoskit.probe.imports import look_ahead

    look_ahead()


def _unfit() -> str | None:
    """Why forks of this process would not be what fresh ones are; None if they would."""
    open_files = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            open_files.append(os.readlink(f"/proc/self/fd/{fd}"))
    device = next((path for path in open_files if path.startswith(_ACCELERATORS)), None)
    torch = sys.modules.get("torch")
    if device is not None or (torch is not None and torch.cuda.is_initialized()):
        return (
            f"a module that the job imports opens an accelerator ({device or 'CUDA'}), which a fork cannot share"
        )
    if "torch" not in sys.modules:
        return "torch cannot be imported"
    trial = os.fork()
    if trial == 0:
        os._exit(bool(torch is not None and torch.cuda._is_in_bad_fork()))
    if os.waitpid(trial, 0)[1]:
        return "a module that the job imports asks for the CUDA devices, which a fork cannot use after that"
    # Counted after a fork: OpenBLAS, for one, ends its threads for that.
    threads = _threads()
    if threads > 1:
        return f"a module that the job imports starts threads ({threads} now), which a fork would lack"
    try:
        fresh.name((sys.executable, __file__), env=dict(os.environ))
    except OSError as error:
        return f"the kernel does not let a process change its command line ({error})"
    return None


def _threads() -> int:
    """How many threads there are, but for those that a fork brings back by itself."""
    found = 0
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/comm") as comm:  # it may have ended
            found += comm.read().strip() not in _BORN_AGAIN
    return found


def _given() -> dict[str, str]:
    """The environment that this process was started with: the interpreter may have set LC_CTYPE since."""
    with open("/proc/self/environ", "rb") as file:
        entries = [os.fsdecode(entry).partition("=") for entry in file.read().split(b"\0") if entry]
    return {name: value for name, _, value in entries}


if __name__ == "__main__":
    # Afresh, as a module of its name: `__main__` is soon the job's.
    from chaoskit.environments.launch import forkserver

    roles.play(forkserver.ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve)
