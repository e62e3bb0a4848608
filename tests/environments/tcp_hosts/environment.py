"""`TcpHosts`: a small environment that proves the seams: its hosts share only the job's `{out}` with the harness.

Ranks reach their gate over TCP with a token; each host keeps records in a directory of its own, from which a collector
brings them; a host's clock may be off. The hosts are processes of this machine all the same, so that a test can have
them: what makes them other machines to the harness is that it never looks at their directories or their /proc, but
through `Host`. The last host runs in a time namespace whose clock is `clock_off` seconds ahead.
"""

from __future__ import annotations

import math
import select
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from chaoskit.capabilities import ProcessRef
from chaoskit.environments.environment import Ended, EnvironmentEvent, ExtraEvent, RunSpec
from chaoskit.environments.gate.doors import TcpDoor
from chaoskit.environments.gate.orders import GateOrders
from chaoskit.environments.gate.server import GateServer, Identity
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.job_environment import job_environment, node_environment
from chaoskit.environments.launch.launcher import Launch
from chaoskit.environments.launch.multi_node_launch import MultiNodeLaunch
from chaoskit.environments.launch.order import Order
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.records import ranks
from chaoskit.environments.records.collector import DirectoryPerHost, MountedFiles
from chaoskit.environments.traits import EnvironmentTraits
from chaoskit.job import Job


class Host:
    """One host: a directory of its own, and a way to ask after its processes and to send them signals."""

    def __init__(self, name: str, *, clock_off: float = 0.0) -> None:
        self.name = name
        self.clock_off = clock_off
        self.directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        for part in ("events", "logs", "tmp"):
            (self.directory / part).mkdir()

    def process(self, ref: ProcessRef) -> Process:
        """The process that a reference means here: its key is `HOST/START`."""
        return Process(ref.pid, int(ref.key.partition("/")[2]))

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command as it is started here."""
        clock = ["unshare", "--time", f"--monotonic={self.clock_off:g}", "--fork"] if self.clock_off else []
        return [*clock, *command]


class TcpHosts(GateOrders):
    """Runs a job on such hosts; fulfils `Environment`, `CanSignal`, `CanOrder` and `CanCorruptNumbers`."""

    traits = EnvironmentTraits(
        name="tcp-hosts",
        summary="hosts that share nothing with the harness but a network",
        nodes_most=4,
        one_clock=False,
    )
    #: How far the clock of the last host is off, in seconds.
    clock_off = 0.0

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.hosts: dict[str, Host] = {}
        self.index = -1
        self._undo = ExitStack()
        self._gate: GateServer | None = None
        self._launch: MultiNodeLaunch | None = None
        self._has_ended = True
        self._told: list[EnvironmentEvent] = []
        self._collector = DirectoryPerHost(
            spec.run_dir, lambda: {name: MountedFiles(host.directory) for name, host in self.hosts.items()}
        )

    @staticmethod
    def available() -> str | None:
        return None

    @staticmethod
    def storage_available() -> str | None:
        return "its hosts have plain directories"

    @staticmethod
    def lacks(capability: type, job: Job | None) -> str | None:
        return None

    @staticmethod
    def rests_on(job: Job) -> Mapping[str, Any]:
        return {}

    @staticmethod
    def sweep(root: Path) -> tuple[str, ...]:
        return ()

    @staticmethod
    def path_here(job: Job, path: str) -> str | None:
        return path

    @property
    def gate(self) -> GateServer | None:
        return self._gate

    def __enter__(self) -> TcpHosts:
        with ExitStack() as undo:
            # Also in a run that is not gated: the ranks measure their clocks there.
            self._gate = GateServer(TcpDoor(), identify=_identify)
            undo.callback(self._gate.close)
            for number in range(self.spec.nodes.most):
                last = number == self.spec.nodes.most - 1
                host = Host(f"host{number}", clock_off=self.clock_off if last else 0.0)
                self.hosts[host.name] = host
                undo.callback(shutil.rmtree, host.directory, ignore_errors=True)
            undo.callback(self._collector.collect)
            undo.callback(self._close_launch)
            (self.spec.run_dir / "logs").mkdir(exist_ok=True)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    def launch(self, index: int, command: Sequence[str]) -> str:
        self._close_launch()
        self.index = index
        with socket.create_server(("127.0.0.1", 0)) as free:
            meeting = f"127.0.0.1:{free.getsockname()[1]}"
        self._launch = MultiNodeLaunch(
            list(self.hosts), start=lambda name: self._start(self.hosts[name], command, meeting), tell=self._tell
        )
        self._has_ended = False
        return "cold"

    def _start(self, host: Host, command: Sequence[str], meeting: str) -> Launch:
        assert self._gate is not None
        here = {"run_dir": host.directory, "launch": self.index, "tmp": host.directory / "tmp"}
        env = job_environment(self.spec, mode=self.spec.mode, gate=self._gate.door.environment, **here)
        env |= node_environment(self.spec, node=host.name, meeting=meeting, **here)
        env["PET_LOCAL_ADDR"] = "127.0.0.1"
        log = host.directory / "logs" / f"launch-{self.index}.log"
        order = Order(host.wrap(command), env=env, cwd=self.spec.cwd, log=log, run_id=self.spec.run_id)
        return ColdLauncher().start(order)

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        deadline = time.monotonic() + timeout
        while not (found := self._news()) and (left := deadline - time.monotonic()) > 0:
            sources = select.poll()
            sources.register(self._must_gate(0), select.POLLIN)
            if self._launch is not None and not self._has_ended:
                sources.register(self._launch, select.POLLIN)
            patience = self._launch.patience if self._launch is not None else math.inf
            sources.poll(min(left, patience) * 1000)
        return found

    def _news(self) -> list[EnvironmentEvent]:
        found: list[EnvironmentEvent] = list(self._must_gate(0).arrivals())
        if self._launch is not None and not self._has_ended and (end := self._launch.ended()) is not None:
            self._has_ended = True
            self._collector.collect()
            found.append(Ended(self.index, end.code, end.survivors))
        told, self._told = self._told, []
        return [*told, *found]

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        ended = self._launch.stop() if self._launch is not None else ()
        self._collector.collect()
        return ended

    def stacks(self) -> dict[int, str]:
        return {}

    # `CanSignal`.

    def rank_process(self, rank: int) -> ProcessRef:
        self._collector.collect()
        greeted = self._must_gate(rank).newest(rank)
        lives = [greeted] if greeted is not None and greeted[0][0] == self.index else []
        told = ranks.seen(self.spec.run_dir, launch=self.index, ordered_by="t").get(rank)
        if told is not None:
            lives.append((told.incarnation, ProcessRef(told.pid, f"{told.node}/{told.start}")))
        if not lives:
            raise LookupError(f"rank {rank} has not come up yet")
        found = max(lives, key=lambda life: life[0])[1]
        if self.state(found) == "gone":
            raise LookupError(f"rank {rank} is gone")
        return found

    def launcher_processes(self) -> Sequence[ProcessRef]:
        if self._launch is None or not self._launch.agents:
            raise LookupError("the job's command is not running")
        return [ProcessRef(p.pid, f"{host}/{p.started}") for host, p in self._launch.agents.items()]

    def signal(self, process: ProcessRef, signum: int) -> bool:
        return processes.send(self._host(process).process(process), signum)

    def state(self, process: ProcessRef) -> Literal["running", "stopped", "gone"]:
        return processes.state(self._host(process).process(process))

    def delivered(self, process: ProcessRef, signum: int) -> bool:
        return processes.delivered(self._host(process).process(process), signum)

    def _host(self, process: ProcessRef) -> Host:
        return self.hosts[process.key.partition("/")[0]]

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        self._told.append(ExtraEvent(kind, {"launch": self.index, **data}))

    def _close_launch(self) -> None:
        launch, self._launch, self._has_ended = self._launch, None, True
        if launch is not None:
            launch.close()


def _identify(hello: Mapping[str, Any]) -> Identity | None:
    """What the rank says of itself: the harness cannot look at its machine. Our own clock orders the processes."""
    node, start = str(hello["node"]), int(hello["start"])
    return Identity(ProcessRef(int(hello["pid"]), f"{node}/{start}"), began=time.monotonic())
