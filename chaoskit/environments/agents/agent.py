"""The agent: the first process of a container or a pod. It starts the job there, and answers for its processes.

A script (`python -I -S agent.py ADDRESS NAME [TOKEN_FILE [-- COMMAND...]]`), started from a read-only mount by the
Python of the image; it and all that it imports need the standard library alone. It speaks JSON lines on a socket of the
harness, as other helpers do, and ends with it: then the container ends, with everything that runs there. For each
launch it connects once more and hands that line to a keeper, so that harness and keeper speak with each other directly.
At an address `volume:DIRECTORY` the harness is reached by files: it and the ranks connect to a process of this node.

With a command it stands in front of what somebody else wants to run in this container: it tells the harness that
command, which the harness has it start, and ends with its exit code, so that whoever made the container sees that.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    _own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _own]
    _path = os.path.join(os.path.dirname(os.path.dirname(_own)), "protocol", "bootstrap.py")
    with open(_path) as _file:
        exec(_file.read(), {"__file__": _path})

from chaoskit.environments.agents.end_notice import EndNotice
from chaoskit.environments.cgroups import counters
from chaoskit.environments.cgroups.hierarchy import hierarchies
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.gate.doors import ADDRESS, notice_death
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.job_environment import job_environment
from chaoskit.environments.launch.launcher import Launcher
from chaoskit.environments.launch.mode import Mode
from chaoskit.environments.launch.order import Order
from chaoskit.environments.launch.warm import WarmLauncher
from chaoskit.environments.machine import activity, processes, processor_use, stacks, tcp_retransmissions
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.machine.serve import REFUSALS, serve
from chaoskit.environments.metadata import asker
from chaoskit.environments.records.ranks import Rank
from chaoskit.environments.volume_channel import node_end
from chaoskit.environments.volume_channel.carrier import AGENTS, GATE
from chaoskit.errors import CannotWarm, UsageError
from chaoskit.protocol.json_lines import encode

#: How long a lookup of a name may take, in seconds: a name server that is down is waited for much longer.
_LOOKUP_LIMIT = 1.0
_PING = b"chaoskit"
#: Seconds in which the harness must be reached.
_REACH_LIMIT = 60.0


class Agent:
    """The requests of the harness, by the names of the methods. Paths are those that the container has. They raise
    OSError, LookupError, ValueError, and what `start` raises."""

    def __init__(self, door: str, token: str = "", command: Sequence[str] = (), *, gate: str = "") -> None:
        self._door, self._token = door, token
        #: Where ranks of this node find the gate, if that is another address than the harness says.
        self._gate = gate
        self._command = list(command)
        #: With which code this process is to end. Without the word of the harness, a command counts as failed.
        self.code = 1 if command else 0
        self._ear: socket.socket | None = None
        self.notice = EndNotice(leaves=not command)

    def start(self, *, number: int, **request: Any) -> dict[str, Any]:
        """Start a keeper, whose line to the harness opens with `number`; the rest is for `_order`. Returns the keeper,
        and the order that it waits for. Raises CannotWarm, UsageError."""
        launcher = _launcher(request["mode"])
        if self._gate and request["gate"]:
            request["gate"] = {**request["gate"], ADDRESS: self._gate}
        with greet(self._door, {"keeper": number}, token=self._token) as line:
            keeper = launcher.keep(_order(**request), line)
        return {"keeper": keeper.pid, "order": keeper.order, "how": keeper.how}

    def command(self) -> list[str]:
        """The command that this container was made for."""
        return self._command

    def finish(self, code: int) -> dict[str, Any] | None:
        """Have the container end with this exit code once the harness lets go. Returns what `end_notice` would."""
        self.code = code
        return self.notice.tell()

    def make_ready(self, **request: Any) -> None:
        """Return once `start` would take no longer than a fork. Raises CannotWarm, UsageError."""
        launcher = _launcher(request["mode"])
        if isinstance(launcher, WarmLauncher):
            launcher.wait_for_imports(_order(**request))

    def launched(self, pid: int, started: int) -> None:
        """See `EndNotice.launched`."""
        self.notice.launched(Process(pid, started))

    def end_notice(self) -> dict[str, Any] | None:
        """See `EndNotice.tell`."""
        return self.notice.tell()

    def signal(self, pid: int, started: int, signum: int) -> bool:
        """See `CanSignal`."""
        return processes.send(Process(pid, started), signum)

    def state(self, pid: int, started: int) -> str:
        """See `CanSignal`."""
        return processes.state(Process(pid, started))

    def delivered(self, pid: int, started: int, signum: int) -> bool:
        """See `CanSignal`."""
        return processes.delivered(Process(pid, started), signum)

    def activity(
        self, run_id: str, run_dir: str, ranks: list[dict[str, Any]], launchers: list[list[int]]
    ) -> dict[str, Any]:
        """See `CanShowActivity`."""
        own = [Process(pid, started) for pid, started in launchers]
        return asdict(activity.measure(run_id, Path(run_dir), [Rank(**each) for each in ranks], own))

    def stacks(self, run_dir: str, ranks: list[dict[str, Any]]) -> dict[int, str]:
        """The stacks of the ranks that run here."""
        return stacks.collect(Path(run_dir), [Rank(**each) for each in ranks])

    def processes(self, run_id: str) -> list[int]:
        """The pids of the job's processes here."""
        return [process.pid for process in processes.marked(run_id)]

    def started_by(self, run_id: str, pids: list[int]) -> list[list[int]]:
        """See `processes.started_by`: pids and start times."""
        found = processes.started_by(pids, run_id)
        return [[each.pid, each.started] for each in found]

    def line_of(self, run_id: str, port: int) -> list[int]:
        """See `asker.line_of`: among the job's processes here."""
        return asker.line_of(port, processes.marked(run_id))

    def freeze(self, run_id: str) -> list[int]:
        """Stop every process of the job here; returns their pids."""
        stopped: list[Process] = []
        # A process that is just being started is found the next time.
        while new := [process for process in processes.marked(run_id) if process not in stopped]:
            stopped += [process for process in new if processes.send(process, signal.SIGSTOP)]
        return [process.pid for process in stopped]

    def is_frozen(self, run_id: str) -> bool:
        """Whether every process of the job here is stopped."""
        own = processes.marked(run_id)
        return bool(own) and all(processes.state(process) != "running" for process in own)

    def thaw(self, run_id: str) -> None:
        """Continue them."""
        for process in processes.marked(run_id):
            processes.send(process, signal.SIGCONT)

    def resources(self) -> dict[str, Any]:
        """What the kernel counts for this container: the memory in use, the kills for want of it, and the periods of
        the scheduler; its limits, None without one (`limit` in bytes, `processors`); and the bytes that the machine has
        available. The container has a group of its own."""
        memory, cpu = (hierarchies((name,))[0] for name in ("memory", "cpu"))
        periods, throttled, seconds = counters.processor(cpu.own, cpu.version)
        return {
            "used": counters.memory_used(memory.own, memory.version),
            "kills": counters.memory_kills(memory.own, memory.version),
            "periods": periods,
            "throttled": throttled,
            "seconds": seconds,
            "limit": counters.memory_limit(memory.own, memory.version),
            "processors": counters.processor_quota(cpu.own, cpu.version),
            "available": counters.memory_available(),
        }

    def processor_use(self, pids: list[int]) -> dict[str, Any]:
        """See `processor_use.of_processes`."""
        return processor_use.of_processes(pids)

    def entered(self) -> dict[int, int]:
        """See `processor_use.entered`."""
        return processor_use.entered()

    def kill_first(self, pids: list[int]) -> None:
        """Have the kernel choose among these processes, and not the agent, if the container has no memory left."""
        for pid in pids:
            with suppress(OSError):  # it has ended
                Path(f"/proc/{pid}/oom_score_adj").write_text("1000")

    def resolves(self, name: str) -> bool:
        """See `CanHideNames`. Asked by a child: the C library remembers what it has read, and may wait for long."""
        told, tells = os.pipe()
        pid = os.fork()
        if pid == 0:
            with suppress(OSError):
                socket.getaddrinfo(name, None)
                os.write(tells, b"1")
            os._exit(0)
        os.close(tells)
        with open(told, "rb") as answer:
            found = bool(select.select([answer], [], [], _LOOKUP_LIMIT)[0] and answer.read(1))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return found

    def listen(self, port: int) -> None:
        """Receive test datagrams from now on."""
        if self._ear is None:
            self._ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._ear.bind(("0.0.0.0", port))

    def ping(self, address: str, port: int) -> bool:
        """Send a test datagram; False where there is no way."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
            try:
                mouth.sendto(_PING, (address, port))
            except OSError:
                return False
        return True

    def heard(self, address: str, seconds: float) -> bool:
        """Whether a test datagram from that address comes within so many seconds; takes all that have come."""
        assert self._ear is not None
        found = False
        while select.select([self._ear], [], [], 0 if found else seconds)[0]:
            found |= self._ear.recvfrom(64)[1][0] == address
        return found

    def network_felt(self) -> dict[str, Any]:
        """What the network does to the connections here (see `tcp_retransmissions.felt`)."""
        return tcp_retransmissions.felt()

    def round_trips(self, address: str, port: int, count: int, limit: float) -> list[float]:
        """See `tcp_retransmissions.round_trips`."""
        return tcp_retransmissions.round_trips(address, port, count=count, limit=limit)

    def unwritable(self, paths: list[str]) -> list[str]:
        """Those of these directories in which the user of the image cannot make a file."""
        found = []
        for path in paths:
            trial = os.path.join(path, f".chaoskit-{os.getpid()}")
            try:
                os.close(os.open(trial, os.O_CREAT | os.O_WRONLY | os.O_EXCL))
                os.unlink(trial)
            except OSError:
                found.append(path)
        return found

    def error_of_write(self, directory: str) -> int:
        """The number of the error with which making, writing and removing a file there fails; 0 if nothing fails."""
        trial = os.path.join(directory, f".chaoskit-{os.getpid()}")
        try:
            made = os.open(trial, os.O_CREAT | os.O_WRONLY | os.O_EXCL)
            try:
                os.write(made, _PING)
            finally:
                os.close(made)
                os.unlink(trial)
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def file_system(self, path: str) -> str:
        """The type of the file system that is mounted at a path; "" if none is."""
        with open("/proc/self/mountinfo") as mounts:
            found = [line.split(" - ") for line in mounts]
        return next((rest.split()[0] for about, rest in reversed(found) if about.split()[4] == path), "")

    def booted(self) -> float:
        """When the machine of this node was started, in seconds of its clock."""
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def network(self) -> int:
        """The inode of the network namespace of this container."""
        return os.stat("/proc/self/ns/net").st_ino

    def hand_over(self, paths: list[str]) -> None:
        """Let every user read and remove what the user of the image has written below these directories."""
        for top in paths:
            for directory, _, names in os.walk(top):
                for path in (directory, *(os.path.join(directory, name) for name in names)):
                    with suppress(OSError):
                        mode = os.lstat(path).st_mode
                        if os.path.isdir(path) and not os.path.islink(path):
                            os.chmod(path, mode & 0o7777 | 0o777)
                        elif os.path.isfile(path) and not os.path.islink(path):
                            os.chmod(path, mode & 0o7777 | 0o666)


def _order(
    *,
    command: list[str],
    spec: dict[str, Any],
    mode: dict[str, Any],
    launch: int,
    gate: dict[str, str] | None,
    node: dict[str, str],
    log: str,
) -> Order:
    """The order for a keeper; `node` are the variables of this node."""
    run_dir, out, cwd = (Path(spec[name]) for name in ("run_dir", "out", "cwd"))
    told = RunSpec(run_dir, out, cwd, spec["run_id"], env=spec["env"], learning=spec["learning"])
    env = job_environment(told, run_dir=run_dir, launch=launch, mode=Mode.from_json(mode), tmp=None, gate=gate)
    return Order(command, env={**env, **node}, cwd=cwd, log=Path(log), run_id=told.run_id)


def _launcher(mode: dict[str, Any]) -> Launcher:
    how = Mode.from_json(mode)
    return WarmLauncher(how.modules, how.threads, demanded=how.demanded) if how.warm else ColdLauncher()


def greet(door: str, hello: Mapping[str, Any], *, token: str = "") -> socket.socket:
    """A line to the harness that begins with this hello. Raises OSError."""
    line = connect(door)
    line.sendall(encode({**hello, **({"token": token} if token else {})}))
    return line


def connect(door: str) -> socket.socket:
    """A line to the harness, whose address is that of a `Door`. Raises OSError."""
    if door.startswith("tcp://"):
        host, _, port = door.removeprefix("tcp://").rpartition(":")
        line = socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_LIMIT)
        line.settimeout(None)
        notice_death(line)
        return line
    door = door.removeprefix("unix:")
    line = socket.socket(socket.AF_UNIX)
    directory = os.open(os.path.dirname(door), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Through the directory's descriptor: an address holds 107 bytes, and a path may be longer.
        line.connect(f"/proc/self/fd/{directory}/{os.path.basename(door)}")
    finally:
        os.close(directory)
    return line


def _reap(*_: object) -> None:
    """The first process of a container inherits every orphan there."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main(door: str, name: str, token_file: str = "", *behind: str) -> None:
    """Serve until the harness is gone. `name` tells the harness which of its nodes this is; `behind` is a mark, and the
    command of the container."""
    signal.signal(signal.SIGCHLD, _reap)
    token = ""
    if token_file:
        try:
            token = Path(token_file).read_text()
        except OSError as error:
            sys.exit(f"this node does not see the files of the run as chaoskit does: {error}")
    gate = ""
    try:
        if door.startswith(node_end.VOLUME):
            doors = node_end.start(Path(door.removeprefix(node_end.VOLUME)), name)
            door, gate = doors[AGENTS], doors[GATE]
        agent = Agent(door, token, behind[1:], gate=gate)
        signal.signal(signal.SIGTERM, agent.notice.receive)
        line = greet(door, {"agent": name, "pid": os.getpid()}, token=token)
    except OSError as error:
        sys.exit(f"this node does not reach chaoskit at {door}: {error}")
    serve(line, agent, refusals=(CannotWarm, UsageError, *REFUSALS))
    sys.exit(agent.code)


if __name__ == "__main__":
    main(*sys.argv[1:])
