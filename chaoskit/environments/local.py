"""`LocalEnvironment`: the ranks are processes of this machine. It can signal them, give them orders, corrupt their
numbers and touch their files."""

from __future__ import annotations

import json
import math
import os
import select
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from chaoskit.capabilities import Process, StoredCheckpoint, Trouble
from chaoskit.environments import processes, ranks, scratch, stacks, stored
from chaoskit.environments.environment import Ended, Happening, Place
from chaoskit.environments.gate import Gate
from chaoskit.environments.ranks import Incarnation, Rank
from chaoskit.environments.storage import Storage
from chaoskit.environments.storage import trial as storage_trial
from chaoskit.errors import UsageError
from chaoskit.fingerprint import LENT, library
from chaoskit.launch.cold import ColdLauncher
from chaoskit.launch.launcher import Launch, Launcher
from chaoskit.launch.mode import Mode
from chaoskit.launch.order import Order
from chaoskit.launch.warm import WarmLauncher
from chaoskit.probe.session import STACK_SIGNAL

_SITE = Path(__file__).parent.parent / "probe" / "site"


class LocalEnvironment:
    """Runs a job on this machine; fulfils `Environment`, `CanSignal`, `CanOrder`, `CanCorruptNumbers`,
    `CanTouchFiles` and, where its place has a storage of ours, `CanFailStorage`.

    `launcher` starts the commands (default: as the place's mode says). Entering it raises UsageError where the
    directory of the run, its temporary one, or its storage cannot be used.
    """

    name = "local"
    launches_warm = True

    def __init__(self, place: Place, launcher: Launcher | None = None) -> None:
        self.place = place
        self._run_dir = place.run_dir.absolute()
        self._launcher = launcher if launcher is not None else launcher_for(place.mode)
        self._relauncher = launcher_for(place.relaunch_mode) if place.relaunch_mode is not None else None
        self._undo = ExitStack()
        self._gate: Gate | None = None
        self._tmp: Path | None = None
        self._storage: Storage | None = None
        self._index = -1
        self._launch: Launch | None = None
        self._told_end = True

    @staticmethod
    def available() -> str | None:
        """None where it can be used, else why not and what would help."""
        if not sys.platform.startswith("linux"):
            return f"it needs Linux, and this is {sys.platform}: run it in a Linux container"
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (AttributeError, OSError) as error:
            return f"the kernel offers no pidfd ({error}): it needs Linux 5.3 or newer"
        if processes.identify(os.getpid()) is None:
            return "/proc is not mounted: mount it (mount -t proc proc /proc)"
        return None

    @staticmethod
    def storage_available() -> str | None:
        """None where a place may have a storage of ours, else why not and what would help."""
        return storage_trial()

    def __enter__(self) -> LocalEnvironment:
        with ExitStack() as undo:
            self._tmp = scratch.make(self.place.run_id)
            undo.callback(scratch.remove, self.place.run_id)
            try:
                (self._run_dir / "logs").mkdir(parents=True, exist_ok=True)
                if self.place.gated:
                    self._gate = Gate(self._run_dir)
                    undo.callback(self._gate.close)
            except OSError as error:
                raise UsageError(f"cannot use the run's directory {self._run_dir}: {error}") from error
            if self.place.storage:
                recorded = self.place.storage == "recorded"
                made = Storage(self.place.run_id, out=self.place.out, run_dir=self._run_dir, recorded=recorded)
                self._storage = made
                undo.callback(made.close)
            # Nobody should be left by now; somebody is where the keeper itself was killed.
            undo.callback(processes.end_marked, self.place.run_id, run_dir=self._run_dir)
            undo.callback(self._close_launch)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    def launch(self, index: int, command: Sequence[str]) -> str:
        """Start the command as launch number `index`, and say how; raises UsageError if it cannot be started.

        The launch before it is over then: what might still run of it is ended.
        """
        self._close_launch()
        self._index = index
        self._launch = self._starter.start(self._order(command))
        self._told_end = False
        return self._how(self._launch)

    def wait(self, timeout: float) -> list[Happening]:
        """What happened, as soon as something has, or nothing after `timeout` seconds.

        The end of a launch is told once, after everything else, also where `stop` brought it about. Raises
        ChaoskitError where the job is no longer kept, or its storage is gone.
        """
        deadline = time.monotonic() + timeout
        while True:
            if self._storage is not None:
                self._storage.must_stand()
            happened = self._news()
            left = deadline - time.monotonic()
            if happened or left <= 0:
                return happened
            left = min(left, self._patience())
            ears = select.poll()
            if self._gate is not None:
                ears.register(self._gate, select.POLLIN)
            if self._launch is not None and not self._told_end:
                ears.register(self._launch, select.POLLIN)
            if self._storage is not None:
                ears.register(self._storage, select.POLLIN)
            ears.poll(left * 1000)

    def release(self, rank: int, *, keep_gating: bool, until: int = 0, names: int = 0) -> None:
        """Let the rank that arrived go on, or do what it was ordered; nothing happens if it is gone."""
        if self._gate is not None:
            self._gate.release(rank, keep_gating=keep_gating, until=until, names=names)

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """End every process of the current launch at once; returns what had to be ended."""
        return self._launch.stop() if self._launch is not None else ()

    def stacks(self) -> dict[int, str]:
        """The Python stack of each living rank of the current launch, for people; takes up to 2 seconds."""
        known = list(ranks.seen(self._run_dir, launch=self._index).values())
        if not known and self._launch is not None:
            # A plain process that hangs before its first step has not said yet that it is rank 0.
            process = self._launch.process
            known = [Rank(0, process, self._index, 0, 0.0, STACK_SIGNAL)]
        return stacks.collect(self._run_dir, known)

    def rank_process(self, rank: int) -> Process:
        """See `CanSignal`."""
        lives: list[tuple[Incarnation, Process]] = []
        greeted = self._gate.newest(rank) if self._gate is not None else None
        if greeted is not None:
            lives.append(greeted)
        told = ranks.seen(self._run_dir, launch=self._index).get(rank)
        if told is not None:
            lives.append((told.incarnation, told.process))
        current = [life for life in lives if life[0][0] == self._index]
        if not current:
            raise LookupError(f"rank {rank} has not come up yet")
        process = max(current, key=lambda life: life[0])[1]
        if processes.state(process) == "gone":
            raise LookupError(f"rank {rank} is gone")
        return process

    def launcher_processes(self) -> list[Process]:
        """See `CanSignal`."""
        if self._launch is None or processes.state(self._launch.process) == "gone":
            raise LookupError("the job's command is not running")
        return [self._launch.process]

    def signal(self, process: Process, signum: int) -> bool:
        """See `CanSignal`."""
        return processes.send(process, signum)

    def state(self, process: Process) -> Literal["running", "stopped", "gone"]:
        """See `CanSignal`."""
        return processes.state(process)

    def delivered(self, process: Process, signum: int) -> bool:
        """See `CanSignal`."""
        return processes.delivered(process, signum)

    def order(self, rank: int, order: Mapping[str, Any]) -> None:
        """See `CanOrder`; raises LookupError if the rank is not connected."""
        if self._gate is None:
            raise LookupError(f"rank {rank} takes no orders: the run is not gated")
        self._gate.order(rank, order)

    def raised(self, rank: int) -> bool:
        """See `CanOrder`."""
        return self._gate is not None and self._gate.raised(rank)

    def corrupt(self, rank: int, order: Mapping[str, Any]) -> int:
        """See `CanCorruptNumbers`."""
        if self._gate is None:
            raise LookupError(f"rank {rank} takes no orders: the run is not gated")
        return self._gate.corrupt(rank, order)

    def corrupted(self, rank: int, number: int) -> Mapping[str, Any] | None:
        """See `CanCorruptNumbers`."""
        return self._gate.corrupted(rank, number) if self._gate is not None else None

    def out(self) -> Path:
        """See `CanTouchFiles`."""
        if self._storage is not None:
            self._storage.settle()
        return self.place.out

    def aside(self) -> Path:
        """See `CanTouchFiles`: `aside-*` in the directory of the run."""
        return Path(tempfile.mkdtemp(prefix="aside-", dir=self._run_dir))

    def stored_checkpoints(self) -> tuple[StoredCheckpoint, ...]:
        """See `CanTouchFiles`."""
        return stored.checkpoints(self._run_dir, self.place.out)

    def checkpoint_directories(self) -> tuple[str, ...]:
        """See `CanTouchFiles`."""
        return stored.entries(self._run_dir, self.place.out)

    def fail_storage(self, trouble: Trouble) -> int:
        """See `CanFailStorage`."""
        return self._must_store().fail(trouble)

    def mend_storage(self, trouble: int) -> None:
        """See `CanFailStorage`."""
        self._must_store().mend(trouble)

    def storage_met(self, trouble: int) -> Mapping[str, Any]:
        """See `CanFailStorage`."""
        return self._must_store().met(trouble)

    def _must_store(self) -> Storage:
        if self._storage is None:
            raise LookupError("the job's {out} is a plain directory, which cannot be made to fail")
        return self._storage

    def _order(self, command: Sequence[str]) -> Order:
        """The current launch, as a launcher is told of it."""
        return Order(
            command,
            env=self._environ(self._index),
            cwd=self.place.cwd,
            log=self._run_dir / "logs" / f"launch-{self._index}.log",
            run_id=self.place.run_id,
            tmp=self._tmp,
            host=self._storage.host if self._storage is not None else None,
        )

    def _how(self, launch: Launch) -> str:
        """How it was launched; a launcher that was chosen to start afresh does not know why."""
        return str(self._mode) if launch.how == "cold" else launch.how

    @property
    def _starter(self) -> Launcher:
        """What starts the current launch."""
        return self._launcher if self._index == 0 or self._relauncher is None else self._relauncher

    @property
    def _mode(self) -> Mode:
        """How the current launch is to be made."""
        again = self.place.relaunch_mode if self._index > 0 else None
        return again if again is not None else self.place.mode

    def _patience(self) -> float:
        """For how many seconds nothing needs to be done unless something happens."""
        return math.inf

    def _news(self) -> list[Happening]:
        end = None
        if self._launch is not None and not self._told_end:
            end = self._launch.ended()
        happened: list[Happening] = list(self._gate.arrivals()) if self._gate is not None else []
        if end is not None:
            self._told_end = True
            happened.append(Ended(self._index, end.code, end.survivors))
        return happened

    def _close_launch(self) -> None:
        launch, self._launch, self._told_end = self._launch, None, True
        if launch is not None:
            launch.close()

    def _environ(self, index: int) -> dict[str, str]:
        """The job's environment: ours, the user's additions, then what chaoskit needs."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("CHAOSKIT_")}
        env["TMPDIR"] = str(self._tmp)
        env.update(self.place.env)
        # torchrun takes PET_* as defaults of its flags, so a flag on the user's command line still wins.
        env.setdefault("PET_TEE", "3")
        env.setdefault("PET_LOG_DIR", str(self._run_dir / "logs" / "ranks" / f"launch-{index}"))
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_SITE), env.get("PYTHONPATH"))))
        env["CHAOSKIT_RUN"] = str(self._run_dir)
        env["CHAOSKIT_ID"] = self.place.run_id
        env["CHAOSKIT_LAUNCH"] = str(index)
        env["CHAOSKIT_OUT"] = str(self.place.out)
        env[LENT] = library()
        if self.place.gated:
            env["CHAOSKIT_GATED"] = "1"
        if self._mode.captures:
            env["CHAOSKIT_CAPTURES"] = json.dumps(self._mode.captures)
        if self.place.learning:
            env["CHAOSKIT_LEARN"] = "1"
        return env


def launcher_for(mode: Mode) -> Launcher:
    """What starts commands in that manner."""
    return WarmLauncher(mode.modules, mode.threads, demanded=mode.demanded) if mode.warm else ColdLauncher()
