"""`ProbeSession`: the probe in one process: its rank, its record, its gate, and its error handling.

A process whose environment names a rank is a rank from its start. Another process becomes rank 0 of 1 (or the rank that
torch.distributed assigns) when it trains. Launchers, children of a rank and data-loader workers are no ranks.
"""

from __future__ import annotations

import atexit
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.probe.wall_clock import WallClock
from chaoskit.protocol.descriptors import OwnDescriptor
from chaoskit.protocol.events import EventWriter
from chaoskit.protocol.fingerprint import ALGORITHM
from chaoskit.protocol.secret_words import redact_words

if TYPE_CHECKING:
    from chaoskit.probe.gate import GateClient
    from chaoskit.probe.parts import NumberInjector, SaveRecorder, StateMoments, StateOrders, StepObserver

#: The signal on which a process writes the Python stacks of all its threads to its `stack_file`.
STACK_SIGNAL = signal.SIGRTMAX - 3

#: So many errors that read the same are recorded.
ALIKE = 100

#: Marks the environment of a rank, so that its children know that they are no ranks.
MARK = "CHAOSKIT_RANK_PID"

#: The modules and files that launchers are started as.
_LAUNCHERS = frozenset((
    "torch.distributed.run", "torch.distributed.launch", "torchrun", "accelerate", "accelerate-launch",
    "accelerate.commands.launch", "deepspeed", "deepspeed.launcher.runner", "deepspeed.launcher.launch",
))  # fmt: skip

#: The session of this process, once the probe has started in it.
session: ProbeSession | None = None


class ProbeSession:
    """One per process. `open` begins the record, as soon as it is known that the process is a rank."""

    def __init__(self, run: Path, *, launch: int, gate: str = "", forked: bool = False) -> None:
        self.run = run
        self.forked = forked
        self.launch = launch
        #: The address of the gate; "" in a run whose ranks do not stop.
        self.address = gate
        self.rank: int | None = None
        self.gate: GateClient | None = None
        self.observer: StepObserver | None = None
        self.saves: SaveRecorder | None = None
        #: Exists while an order to change numbers is not finished.
        self.injector: NumberInjector | None = None
        self.snapshots: StateOrders | None = None
        #: In a run in which state is kept or put back.
        self.moments: StateMoments | None = None
        #: Whether what happens now is outside of every model; until torch is there, nothing is.
        self.outside: Callable[[], bool] = bool
        self.closed = False
        self._writer: EventWriter | None = None
        # An asynchronous save ends in a thread of its own, and a signal handler may save in the middle of a write.
        self._writing = threading.RLock()
        self._wall: WallClock | None = None
        self._lost = 0
        self._errors: Counter[tuple[str, str]] = Counter()
        self._stacks: OwnDescriptor | None = None
        self._pid = os.getpid()
        self._before: list[tuple[str, dict[str, Any]]] = []
        self.write("rng0", stream="python", value=_python_stream())

    @property
    def may_be_rank(self) -> bool:
        """False in a launcher and in a child of a rank."""
        mark = os.environ.get(MARK)
        return not self.closed and not is_launcher() and mark in (None, str(os.getpid()))

    def open(self, *, rank: int | None = None, world_size: int | None = None) -> bool:
        """Begin the record of this rank, if this process can be one; True once it is open."""
        if self._writer is not None:
            return True
        if not self.may_be_rank:
            return False
        env = os.environ
        self.rank = rank if rank is not None else int(env.get("RANK", "0"))
        world = world_size if world_size is not None else int(env.get("WORLD_SIZE", "1"))
        restart = int(env.get("TORCHELASTIC_RESTART_COUNT", "0"))
        env[MARK] = str(os.getpid())
        name = f"rank-{self.launch}-{restart}-{self.rank}-{os.getpid()}"
        while (path := self.run / "events" / f"{name}.jsonl").exists():
            name += "-again"  # the rank has replaced its own program (exec)
        self._writer = EventWriter(path)
        wall = WallClock()
        self.write(
            "process.start",
            role="rank",
            rank=self.rank,
            local_rank=int(env.get("LOCAL_RANK", "0")),
            world=world,
            launch=self.launch,
            restart=restart,
            pid=os.getpid(),
            ppid=os.getppid(),
            start=process_start(),
            argv=redact_words(sys.orig_argv),
            python=sys.version.split()[0],
            algorithm=ALGORITHM,
            stack_signal=self.register_stacks(),
            forked=self.forked,
            ahead=wall.ahead,
            **({"node": env["CHAOSKIT_NODE"]} if env.get("CHAOSKIT_NODE") else {}),
        )
        self._wall = wall  # its jumps come after the start, which is the first event of every record
        for kind, data in self._before:
            self.write(kind, **data)
        atexit.register(self._end)
        if self.address:
            self._go_to_gate(restart)
        return True

    def _go_to_gate(self, restart: int) -> None:
        from chaoskit.probe.gate import TOKEN, GateClient

        assert self.rank is not None
        who: dict[str, Any] = {
            "rank": self.rank,
            "launch": self.launch,
            "restart": restart,
            "start": process_start(),
        }
        self.gate = GateClient(self.address, token=os.environ.get(TOKEN, ""), **who)
        if self.gate.refused:
            self.error("gate", PermissionError(self.gate.refused))
        if self.gate.clock is not None:
            offset, error = self.gate.clock
            self.write("clock", offset=offset, error=error)
        self.gate.handlers["corrupt"] = partial(self.guard, "corrupt", self._corrupt)
        for word in ("keep", "restore", "watch"):
            self.gate.handlers[word] = partial(self.guard, word, self._snapshot)

    def write(self, kind: str, **data: Any) -> None:
        """Append an event to the record. Events from before `open` are kept until then.

        A full disk must not fail the job: lost events are counted, and their number is recorded once that works.
        """
        if self._writer is None:
            if len(self._before) < 100:
                self._before.append((kind, data))
            return
        if os.getpid() != self._pid:
            self.forget()  # a child that was forked by other means than os.fork
            return
        with self._writing:
            opened = self._writer.opened
            try:
                if self._lost:
                    self._writer.write("probe.lost", events=self._lost)
                    self._lost = 0
                if self._wall is not None and (jumped := self._wall.jumped()) is not None:
                    self._writer.write("wall", ahead=self._wall.ahead, jumped=jumped)
                self._writer.write(kind, **data)
            except OSError:
                self._lost += 1
            if self._writer.opened != opened:
                self.register_stacks()

    def _snapshot(self, order: Mapping[str, Any]) -> None:
        """Carry out an order about the whole training state; only `sdc-map` gives such orders."""
        from chaoskit.probe.snapshot import Snapshots

        if self.snapshots is None:
            self.snapshots = Snapshots(self)
        self.snapshots.handlers[str(order["do"])](order)

    def _corrupt(self, order: Mapping[str, Any]) -> None:
        """Accept an order to change numbers."""
        from chaoskit.probe.injection.injector import Injector

        assert self.gate is not None and self.observer is not None
        if self.injector is None:
            self.injector = Injector(self, self.gate, self.observer)
        self.injector.corrupt(order)

    def error(self, where: str, error: BaseException) -> None:
        """Record an exception of the probe itself, `ALIKE` alike ones at most; it never reaches the job."""
        text = f"{type(error).__name__}: {error}"[:500]
        self._errors[where, text] += 1
        if self._errors[where, text] <= ALIKE:
            self.write("probe.error", where=where, error=text)

    def guard(self, where: str, action: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `action`; if it raises, record the exception and return None. What a signal handler of the job raises
        meanwhile is meant for the job, and goes on to it."""
        try:
            return action(*args, **kwargs)
        except Exception as error:
            if _from_handler(error):
                raise
            self.error(where, error)
            return None

    def register_stacks(self) -> int | None:
        """Register the signal that writes every thread's Python stack to the run's logs; for a rank that hangs."""
        import faulthandler

        if self._stacks is not None and self._stacks.is_ours:
            return int(STACK_SIGNAL)
        fresh = os.O_TRUNC if self._stacks is None else 0
        try:
            # A C-level handler works also where Python code can no longer run.
            # It stays open as long as the process lives.
            path = self.run / "logs" / stack_file(os.getpid(), os.environ.get("CHAOSKIT_NODE", ""))
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | fresh, 0o644)
            self._stacks = OwnDescriptor(fd)
            faulthandler.register(STACK_SIGNAL, file=fd, all_threads=True)
        except (OSError, RuntimeError, ValueError):
            return None
        return int(STACK_SIGNAL)

    def _end(self) -> None:
        if self.closed or self._writer is None:
            return
        if self.observer is not None:
            self.guard("end", self.observer.finish)
        error = getattr(sys, "last_value", None)
        why = {} if error is None else {"uncaught": f"{type(error).__name__}: {error}"[:300]}
        self.write("process.end", clean=not hasattr(sys, "last_type"), **why)
        self.closed = True

    def forget(self) -> None:
        """In a forked child: this process is no rank until it shows that it is one."""
        self.closed = self._writer is not None
        self._writer = None
        self._writing = threading.RLock()
        self.gate = self.injector = self.snapshots = self.moments = None
        self.observer = None if self.closed else self.observer


def start(*, forked: bool = False) -> None:
    """Start the probe in this process. Called by `sitecustomize` if the environment asks for it, and by a process that
    was `forked` to be one of the job."""
    global session
    from chaoskit.probe.imports import watch_imports
    from chaoskit.protocol.scheduled import resolve

    env = os.environ
    resolve(env)
    session = ProbeSession(
        Path(env["CHAOSKIT_RUN"]),
        launch=int(env.get("CHAOSKIT_LAUNCH", "0")),
        gate=env.get("CHAOSKIT_GATE", ""),
        forked=forked,
    )
    os.register_at_fork(after_in_child=session.forget)
    if not session.may_be_rank:
        return
    from chaoskit.probe.sources import watch_files

    watch_files(Path(env["CHAOSKIT_RUN"]), env.get("CHAOSKIT_OUT"))
    watch_imports(session)
    session.register_stacks()
    if "RANK" in env:
        session.open()


def stack_file(pid: int, node: str) -> str:
    """The name of the file, in the run's logs, to which a process writes its stacks."""
    return f"stack-{node}-{pid}.txt" if node else f"stack-{pid}.txt"


def is_launcher() -> bool:
    """Whether this process only starts ranks. Under Kubernetes its environment may name a rank all the same."""
    return not _LAUNCHERS.isdisjoint(map(os.path.basename, sys.orig_argv[1:4]))


def process_start() -> int:
    """The start time of this process in clock ticks since boot (field 22 of /proc/self/stat)."""
    with open("/proc/self/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])


def _python_stream() -> str:
    from chaoskit.probe.streams import python_stream

    return python_stream(random.getstate())


def _from_handler(error: BaseException) -> bool:
    """Whether a signal handler raised this exception, while the probe happened to run: a loader's handler does so when
    a worker dies, and a job's may do so when it is told to leave."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {code for each in handlers if callable(each) and (code := _code(each)) is not None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code(handler: Any) -> Any:
    """The code of a function, a method, a partial one, or an object that is called; None for one written in C."""
    while isinstance(handler, partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    called = function if hasattr(function, "__code__") else type(handler).__call__
    return getattr(called, "__code__", None)
