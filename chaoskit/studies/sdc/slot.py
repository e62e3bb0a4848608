"""`InjectionSlot`: launches a job repeatedly, and tests several corruptions in each launch.

The very first launch stores the state of every rank at the beginning of each window. Later launches restore it before a
window that follows a corruption, at the same step, because the script counts its own steps. If the job ends, the launch
ends.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from chaoskit import environments
from chaoskit.analysis.recovery.pace import longest_quiet
from chaoskit.analysis.reference.reference import Reference
from chaoskit.capabilities import CanCorruptNumbers, CanOrder, CanShowActivity
from chaoskit.engine.hang_watch import FLOOR, LOOK_EVERY, PACE
from chaoskit.engine.log_reason import reason
from chaoskit.engine.run_store import Store
from chaoskit.environments.environment import Arrived, Ended, Environment, RunSpec
from chaoskit.environments.launch.mode import Mode
from chaoskit.errors import Undecided
from chaoskit.files.removal import empty, remove
from chaoskit.job import Job
from chaoskit.protocol.events import rank_events
from chaoskit.studies.sdc.changes import USUAL
from chaoskit.studies.sdc.sample import Injection
from chaoskit.studies.sdc.trace import End, Seen, Trace
from chaoskit.studies.sdc.windows import WatchWindow

#: Interval of polling in seconds.
POLL_EVERY = 0.2
#: Where the environment does not show what the job records, it hangs without an event for `FLOOR` seconds plus this
#: multiple of the time of an uninterrupted run.
TIMES = 2.0
#: Number of launches without any result after which the measurement stops.
EMPTY_LAUNCHES = 3
#: Lines that look like a reason, and the prefix that torchrun puts before a line of a rank.
_REASON = re.compile(r"error|exception|\bnan\b|\binf\b|refuse|abort", re.IGNORECASE)
_OWN = re.compile(r"\[(?:default|rank)?\d+\]:\s*(\S.*)")


@dataclass(frozen=True)
class Subject:
    """The job, its reference, and the directory of the map."""

    job: Job
    reference: Reference
    store: Store
    run_dir: Path

    @property
    def snapshots(self) -> Path:
        """The directory of the stored states of the ranks, in that of the first slot."""
        return self.run_dir / "slots" / "0" / "snapshots"

    def snapshot(self, window: WatchWindow, rank: int) -> str:
        return str(self.snapshots / f"{window.opens}-{rank}.pt")


@dataclass
class Trial:
    """One window with its `injection` (None: a control), and its `trace`.

    `alone`: no corruption came before it in the launch.
    """

    window: WatchWindow
    injection: Injection | None = None
    dtype: str = USUAL
    alone: bool = True
    trace: Trace = field(default_factory=Trace)


class InjectionSlot:
    """A context manager. `over` is set to stop all slots."""

    def __init__(self, number: int, subject: Subject, over: threading.Event) -> None:
        self._number = number
        self._subject = subject
        self._over = over
        self._launch = self._empty_launches = 0
        self._undo = ExitStack()

    def __enter__(self) -> InjectionSlot:
        of, job = self._subject, self._subject.job
        with ExitStack() as undo:
            self._directory = of.store.new_slot(of.run_dir, self._number)
            undo.callback(remove, self._directory, within=of.store.root)
            self._out = self._directory / "out"
            spec = RunSpec(
                run_dir=self._directory,
                out=self._out,
                cwd=job.directory,
                run_id=of.store.read(self._directory)["id"],
                gated=True,
                env={key: value.replace("{out}", str(self._out)) for key, value in job.env.items()},
                mode=Mode.from_json(of.reference.mode),
                nodes=job.nodes,
                image=job.image,
                helper_image=job.helper_image,
                program=job.words()[0],
                mounts=tuple(job.mounts),
                cluster=job.cluster,
                partition=job.partition,
                store=of.store.root,
            )
            name = str(of.store.read(of.run_dir)["environment"])
            self._env: Environment = undo.enter_context(environments.environment(name)(spec))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    def keep(self, windows: Sequence[WatchWindow]) -> Trace:
        """Launch the job without corruptions, and store the state of every rank at the beginning of each window."""
        self._subject.snapshots.mkdir(exist_ok=True)
        last = windows[-1].opens
        whole = Trial(WatchWindow(1, last))
        due = {window.opens - 1: window for window in windows}

        def at(rank: int, step: int) -> Mapping[str, Any] | None:
            window = due.get(step)
            return {"do": "keep", "file": self._subject.snapshot(window, rank)} if window is not None else None

        self._go([whole], at)
        return whole.trace

    def try_out(self, trials: Sequence[Trial]) -> list[Trial]:
        """Launch the job for trials with ascending windows; returns the trials that the job reached."""
        restores = self._restores(trials)

        def at(rank: int, step: int) -> Mapping[str, Any] | None:
            if (window := restores.get(step + 1)) is not None:
                return {"do": "restore", "file": self._subject.snapshot(window, rank)}
            for trial in trials:
                injection = trial.injection
                if injection is not None and (injection.rank, injection.handed_over) == (rank, step):
                    return injection.order(trial.dtype)
            return None

        return self._go(trials, at)

    def _restores(self, trials: Sequence[Trial]) -> dict[int, WatchWindow]:
        """Return the windows before which the state must be restored, by their first step."""
        found, wrong = {}, False
        for trial in trials:
            trial.alone = not wrong
            if wrong:
                found[trial.window.opens] = trial.window
            wrong |= trial.injection is not None
        return found

    def _go(self, trials: Sequence[Trial], order_at: Any) -> list[Trial]:
        """Run one launch until the end of the last window or of the job."""
        for name in ("out", "events", "logs"):
            empty(self._directory / name, within=self._directory)
        self._launch += 1
        self._env.launch(self._launch, self._subject.job.words(out=self._out))
        try:
            return self._follow(trials, order_at)
        finally:
            self._env.stop()

    def _follow(self, trials: Sequence[Trial], order_at: Any) -> list[Trial]:
        world_size = self._subject.reference.world_size
        waiting, done = list(trials), list[Trial]()
        self._numbers: dict[int, tuple[int, Trial]] = {}
        self._watched: set[int] = set()
        patience, said, look_at = self._patience(), -1, 0.0
        deadline = time.monotonic() + patience
        while waiting and not self._over.is_set():
            happened = self._env.wait(POLL_EVERY)
            before = said
            if isinstance(self._env, CanShowActivity) and time.monotonic() >= look_at:
                # Between two windows the ranks train without an event for us, and record what they do.
                said, look_at = self._env.said(), time.monotonic() + LOOK_EVERY
            if happened or said != before:
                deadline = time.monotonic() + patience
            hung = time.monotonic() > deadline
            # Late events of ranks of the previous launch may arrive now.
            arrived = [one for one in happened if isinstance(one, Arrived) and one.launch == self._launch]
            for one in arrived:
                if one.restart == 0:
                    with suppress(LookupError):  # the rank died while it waited
                        self._pass_on(one, waiting, order_at)
            end = next((one for one in happened if isinstance(one, Ended)), None)
            restarted = any(one.restart > 0 for one in arrived)
            while waiting and waiting[0].trace.whole(waiting[0].window, world_size):
                done.append(self._finish(waiting.pop(0)))
                if done[-1].trace.displaced:
                    return done  # the script is no longer at the steps of the stored states
            if end is not None or hung or restarted:
                if waiting and waiting[0].trace.seen:
                    waiting[0].trace.end = self._how(hung)
                    done.append(self._finish(waiting.pop(0)))
                elif not done:
                    self._fail("the job hangs" if hung else self._last_message())
                break
        return done

    def _patience(self) -> float:
        """For how many seconds the job may give no sign of life."""
        reference = self._subject.reference
        if not isinstance(self._env, CanShowActivity):
            return FLOOR + TIMES * reference.seconds
        return FLOOR + PACE * max((longest_quiet(control) for control in reference.controls), default=0.0)

    def _fail(self, why: str) -> None:
        """Count a launch that ended before its first window. Repeated ones are the job's fault."""
        self._empty_launches += 1
        if self._empty_launches >= EMPTY_LAUNCHES:
            message = f"{EMPTY_LAUNCHES} launches ended before their first window: {why}"
            raise Undecided(message, code="reference-failed")

    def _pass_on(self, arrived: Arrived, waiting: Sequence[Trial], order_at: Any) -> None:
        """Record the step of a rank, give it its order, and release it."""
        rank, order = arrived.rank, None
        if arrived.at == "step" and arrived.record is not None:
            step = arrived.n + 1
            for trial in waiting:
                if trial.window.opens <= step <= trial.window.closes:
                    trial.trace.add(rank, step, Seen.of(arrived.record))
            order = order_at(rank, step)
        if order is not None and order["do"] == "corrupt":
            (trial,) = (t for t in waiting if t.injection is not None and arrived.n + 1 in t.window.steps)
            self._numbers[cast(CanCorruptNumbers, self._env).corrupt(rank, order)] = rank, trial
        elif order is not None:
            cast(CanOrder, self._env).order(rank, order)
        elif rank not in self._watched:
            self._watched.add(rank)
            cast(CanOrder, self._env).order(rank, {"do": "watch"})
        self._env.release(rank, keep_gating=True)

    def _finish(self, trial: Trial) -> Trial:
        for number, (rank, one) in self._numbers.items():
            if one is trial:
                trial.trace.effect = cast(CanCorruptNumbers, self._env).corrupted(rank, number)
        return trial

    def _how(self, hung: bool) -> End:
        """Return how the job ended; the first event of a rank about its end decides."""
        if hung:
            return End(False, "the job hangs", hung=True)
        ends = [event for kind in ("uncaught", "process.end") for event in rank_events(self._directory, kind)]
        if not ends:
            return End(False, f"its ranks died without an exit event: {self._last_message()}")
        first = min(ends, key=lambda event: event.t)
        if first.kind == "process.end":
            return End(True, f"the job ended itself: {self._last_message()}")
        return End(bool(first["noticed"]), str(first["error"]))

    def _last_message(self) -> str:
        """Return the last line of the job's own output that looks like a reason."""
        try:
            text = (self._directory / "logs" / f"launch-{self._launch}.log").read_text(errors="replace")
        except OSError:
            return "there is no log"
        own = [found[1] for line in text.splitlines() if (found := _OWN.match(line.strip()))]
        reasons = [line for line in own if _REASON.search(line)]
        return (reasons or own or [reason(text) or "the log is empty"])[-1][:200]
