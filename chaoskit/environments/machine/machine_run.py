"""`MachineRun`: what a run has on one Linux machine, whatever its nodes are: a temporary directory, a gate, the storage
under `{out}`, control groups, metadata services, and the launch that is running. Environments of one machine are built
on it."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from chaoskit.environments.cgroups.run_groups import RunGroups
from chaoskit.environments.environment import Ended, EnvironmentEvent, RunSpec
from chaoskit.environments.fusefs.storage import Storage
from chaoskit.environments.gate.doors import Door, UnixDoor
from chaoskit.environments.gate.server import GateServer, Identify, on_this_machine
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.job_environment import job_environment
from chaoskit.environments.launch.launcher import Launch, Launcher
from chaoskit.environments.launch.mode import Mode
from chaoskit.environments.launch.order import Order
from chaoskit.environments.launch.warm import WarmLauncher
from chaoskit.environments.machine import processes, scratch
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.metadata.asker import line_of
from chaoskit.environments.metadata.run_metadata import RunMetadata
from chaoskit.environments.records import ranks
from chaoskit.errors import UsageError
from chaoskit.files.removal import remove
from chaoskit.protocol import io_journal

#: Seconds of one look at the sources of news: `poll` takes no time over 24.8 days.
_LONGEST_POLL = 3600.0


class MachineRun:
    """One run. `launcher` starts its commands (default: as the mode of `spec` says). `identify` tells its gate which
    process a rank is, and `line_of` its metadata services who asks them (see `RunMetadata`; default: processes of this
    machine).

    An environment calls `begin`, then `mount` and `own_processes` at the moments that suit its nodes, and `end`.
    """

    def __init__(
        self,
        spec: RunSpec,
        launcher: Launcher | None = None,
        *,
        identify: Identify = on_this_machine,
        line_of: Callable[[str, int], Sequence[int]] | None = None,
    ) -> None:
        self.spec = spec
        self._identify, self._line_of = identify, line_of
        self.run_dir = spec.run_dir.absolute()
        self.gate: GateServer | None = None
        self.storage: Storage | None = None
        self.groups: RunGroups | None = None
        self.metadata: RunMetadata | None = None
        self.launch: Launch | None = None
        self.index = -1
        self.has_ended = True
        self._tmp: Path | None = None
        self._launcher = launcher if launcher is not None else launcher_for(spec.mode)
        self._relauncher = launcher_for(spec.relaunch_mode) if spec.relaunch_mode is not None else None
        self._undo = ExitStack()

    # Beginning and end.

    def begin(self, *, others: Collection[int] | None = (), door: Callable[[], Door] | None = None) -> None:
        """Make the directories and the gate. `others` may come to it, too (see `UnixDoor`); `door` makes its door, if
        that is not a socket in the directory of the run. Raises UsageError where they cannot be made."""
        with ExitStack() as undo:
            self._tmp = scratch.make(self.spec.run_id)
            undo.callback(scratch.remove, self.spec.run_id)
            try:
                (self.run_dir / "logs").mkdir(parents=True, exist_ok=True)
                if self.spec.gated:
                    made = door() if door is not None else UnixDoor(self.run_dir, others=others)
                    self.gate = GateServer(made, identify=self._identify)
                    undo.callback(self.gate.close)
                if self.spec.metadata:
                    self.metadata = RunMetadata(
                        self.spec.metadata,
                        imdsv1=self.spec.imdsv1,
                        line_of=self._line_of or (lambda node, port: line_of(port, self._on(node))),
                        ranks=lambda: ranks.seen(self.run_dir, launch=self.index),
                    )
                    undo.callback(self.metadata.close)
                if self.spec.limits:
                    self.groups = RunGroups(self.spec.run_id, self.run_dir, controllers=self.spec.limits)
                    undo.callback(self.groups.remove)
            except OSError as error:
                raise UsageError(f"cannot use the run's directory {self.run_dir}: {error}") from error
            self._undo = undo.pop_all()

    def mount(self, *, within: Mapping[str, str] | None = None, at: Path | None = None) -> None:
        """Make the storage that the specification asks for, if any, in namespaces of its own or `within` others, over
        `{out}` or `at` another directory that shows what is in it."""
        if self.spec.storage:
            self._store(recorded=self.spec.storage == "recorded", within=within, at=at)

    def show(self, directory: Path, *, within: Mapping[str, str] | None = None, at: Path | None = None) -> None:
        """Have launches find `directory` in place of `{out}`, on a storage that notes what they look at."""
        self.hide()
        # Nobody remembers what was done to what was shown before.
        remove(self.run_dir / io_journal.NAME, within=self.run_dir)
        self._store(source=directory, log_accesses=True, within=within, at=at)

    def hide(self) -> None:
        """Take away what was shown."""
        if self.storage is not None:
            self.storage.close()
            self.storage = None

    def _store(self, *, source: Path | None = None, at: Path | None = None, **options: Any) -> None:
        spec = self.spec
        out, source = at or spec.out, source or spec.out
        self.storage = Storage(spec.run_id, out=out, run_dir=self.run_dir, source=source, **options)
        self._undo.callback(self.storage.close)

    def keep(self, undo: Callable[[], object]) -> None:
        """Have this called at the end, before what was kept earlier."""
        self._undo.callback(undo)

    def own_processes(self) -> None:
        """From now on end all processes of the run at its end, before anything that was made so far is undone."""
        # Nobody should be left after the launch; somebody is where the keeper itself was killed.
        self._undo.callback(processes.end_marked, self.spec.run_id, run_dir=self.run_dir)
        self._undo.callback(self.close_launch)

    def _on(self, node: str) -> list[Process]:
        """The processes of the job on a node. Where there is one node alone, they do not bear its name."""
        run_id = self.spec.run_id
        return processes.marked(run_id, node=node) or processes.marked(run_id)

    def end(self) -> None:
        """Undo everything; may be called again."""
        self._undo.close()

    @property
    def tmp(self) -> Path:
        """The temporary directory of the run."""
        assert self._tmp is not None, "the run has not begun"
        return self._tmp

    # Launches.

    def start(self, index: int, begin: Callable[[], Launch]) -> str:
        """Make launch number `index`, and say how; what might still run of the one before is ended."""
        self.close_launch()
        self.index = index
        self.launch = begin()
        self.has_ended = False
        # A launcher that was chosen to start afresh does not know why.
        return str(self.mode) if self.launch.how == "cold" else self.launch.how

    def close_launch(self) -> None:
        """End the launch and let go of it."""
        launch, self.launch, self.has_ended = self.launch, None, True
        if launch is not None:
            launch.close()

    @property
    def launcher(self) -> Launcher:
        """What starts the current launch."""
        return self._launcher if self.index == 0 or self._relauncher is None else self._relauncher

    @property
    def mode(self) -> Mode:
        """How the current launch is to be made."""
        again = self.spec.relaunch_mode if self.index > 0 else None
        return again if again is not None else self.spec.mode

    def order(self, command: Sequence[str], *, node: str = "node0", **more: Any) -> Order:
        """The order for the current launch, on the node of that name."""
        gate = self.gate.door.environment if self.gate is not None else None
        env = job_environment(
            self.spec, run_dir=self.run_dir, launch=self.index, mode=self.mode, tmp=self.tmp, gate=gate
        )
        groups = self.groups.job(node) if self.groups is not None else ()
        told = {
            "env": env,
            "groups": groups,
            "host": self.storage.host if self.storage is not None else None,
            **more,
        }
        log = self.run_dir / "logs" / f"launch-{self.index}.log"
        return Order(command, cwd=self.spec.cwd, log=log, run_id=self.spec.run_id, tmp=self._tmp, **told)

    # What happens.

    def wait(
        self,
        timeout: float,
        *,
        news: Callable[[], list[EnvironmentEvent]] | None = None,
        patience: Callable[[], float] = lambda: math.inf,
    ) -> list[EnvironmentEvent]:
        """What happened, as soon as something has, or nothing after `timeout` seconds. An environment with more to tell
        than `happened` gives `news`, which is asked again after `patience` seconds at the latest.

        Raises ChaoskitError where the job is no longer kept, or its storage is gone.
        """
        deadline = time.monotonic() + timeout
        while True:
            if self.storage is not None:
                self.storage.must_stand()
            found = self.happened() if news is None else news()
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            sources = select.poll()
            for source in (self.gate, None if self.has_ended else self.launch, self.storage):
                if source is not None:
                    sources.register(source, select.POLLIN)
            sources.poll(min(left, patience(), _LONGEST_POLL) * 1000)

    def happened(self) -> list[EnvironmentEvent]:
        """Which ranks have arrived, and, once, that the launch has ended; never blocks."""
        end = self.launch.ended() if self.launch is not None and not self.has_ended else None
        happened: list[EnvironmentEvent] = list(self.metadata.asked()) if self.metadata is not None else []
        happened += self.gate.arrivals() if self.gate is not None else []
        if end is not None:
            self.has_ended = True
            happened.append(Ended(self.index, end.code, end.survivors, end.why, end.requeued))
        return happened


def launcher_for(mode: Mode) -> Launcher:
    """What starts commands in that manner."""
    return WarmLauncher(mode.modules, mode.threads, demanded=mode.demanded) if mode.warm else ColdLauncher()
