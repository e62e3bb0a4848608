"""`Slot`: a place where a job is launched again and again, and many corruptions are tried in each launch.

In the first launch of all the state of every rank is kept as each window opens. Later launches put it back in place
before a window that comes after a corruption, at the very step that it was kept at: the script, which counts for
itself, is at that step, too. A job that ends by itself ends the launch.
"""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit.environments.environment import Arrived, Ended, Place
from chaoskit.environments.local import LocalEnvironment
from chaoskit.errors import Undecided
from chaoskit.events import rank_events
from chaoskit.job import Job
from chaoskit.launch.mode import Mode
from chaoskit.reference import Reference
from chaoskit.sdc.changes import USUAL
from chaoskit.sdc.sample import Injection
from chaoskit.sdc.trace import End, Seen, Trace
from chaoskit.sdc.windows import Window
from chaoskit.store import Store

#: How long, in seconds, is waited before it is looked whether all is over.
LOOK_EVERY = 0.2
#: A job in which nothing happens for so many seconds, and so many times what an uninterrupted run takes, hangs.
PATIENCE, TIMES = 15.0, 2.0
#: So many launches may come to nothing.
BARREN = 3
#: How torchrun hands on what a rank says.
_TELLING = re.compile(r"error|exception|\bnan\b|\binf\b|refuse|abort", re.IGNORECASE)
_OWN = re.compile(r"\[(?:default|rank)?\d+\]:\s*(\S.*)")


@dataclass(frozen=True)
class Subject:
    """The job, what it does uninterrupted, and where the map is made."""

    job: Job
    reference: Reference
    store: Store
    run_dir: Path

    @property
    def snapshots(self) -> Path:
        """Where the states of the ranks are kept, in the directory of the first slot."""
        return self.run_dir / "slots" / "0" / "snapshots"

    def snapshot(self, window: Window, rank: int) -> str:
        return str(self.snapshots / f"{window.opens}-{rank}.pt")


@dataclass
class Trial:
    """What is to be done in one window, None for nothing: a control. What came of it is `trace`.

    `alone`: nothing was made wrong in the launch before, so that it is a launch of its own.
    """

    window: Window
    injection: Injection | None = None
    dtype: str = USUAL
    alone: bool = True
    trace: Trace = field(default_factory=Trace)


class Slot:
    """A context manager. `over` is set where all is to stop."""

    def __init__(self, number: int, subject: Subject, over: threading.Event) -> None:
        self._number = number
        self._subject = subject
        self._over = over
        self._launch = self._barren = 0
        self._undo = ExitStack()

    def __enter__(self) -> Slot:
        of, job = self._subject, self._subject.job
        with ExitStack() as undo:
            self._directory = of.store.new_slot(of.run_dir, self._number)
            undo.callback(shutil.rmtree, self._directory, ignore_errors=True)
            self._out = self._directory / "out"
            place = Place(
                run_dir=self._directory,
                out=self._out,
                cwd=job.directory,
                run_id=of.store.read(self._directory)["id"],
                gated=True,
                env={key: value.replace("{out}", str(self._out)) for key, value in job.env.items()},
                mode=Mode.from_json(of.reference.mode),
            )
            self._env = undo.enter_context(LocalEnvironment(place))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    def keep(self, windows: Sequence[Window]) -> Trace:
        """Launch the job untouched, and keep the state of every rank as each window opens."""
        self._subject.snapshots.mkdir(exist_ok=True)
        last = windows[-1].opens
        whole = Trial(Window(1, last))
        due = {window.opens - 1: window for window in windows}

        def at(rank: int, step: int) -> Mapping[str, Any] | None:
            window = due.get(step)
            return {"do": "keep", "file": self._subject.snapshot(window, rank)} if window is not None else None

        self._go([whole], at)
        return whole.trace

    def try_out(self, trials: Sequence[Trial]) -> list[Trial]:
        """Launch the job and go through the trials, whose windows ascend; those that were come to."""
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

    def _restores(self, trials: Sequence[Trial]) -> dict[int, Window]:
        """By the step that they open at, the windows before which the state has to be put back."""
        found, wrong = {}, False
        for trial in trials:
            trial.alone = not wrong
            if wrong:
                found[trial.window.opens] = trial.window
            wrong |= trial.injection is not None
        return found

    def _go(self, trials: Sequence[Trial], order_at: Any) -> list[Trial]:
        """One launch, from its start until the last window is closed or the job has ended."""
        for name in ("out", "events", "logs"):
            _empty(self._directory / name)
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
        patience = PATIENCE + TIMES * self._subject.reference.seconds
        deadline = time.monotonic() + patience
        while waiting and not self._over.is_set():
            happened = self._env.wait(LOOK_EVERY)
            if happened:
                deadline = time.monotonic() + patience
            hung = time.monotonic() > deadline
            # What ranks of the launch before had said when they were ended may be heard only now.
            arrived = [one for one in happened if isinstance(one, Arrived) and one.launch == self._launch]
            for one in arrived:
                if one.restart == 0:
                    with suppress(LookupError):  # it died as it waited
                        self._pass_on(one, waiting, order_at)
            end = next((one for one in happened if isinstance(one, Ended)), None)
            restarted = any(one.restart > 0 for one in arrived)
            while waiting and waiting[0].trace.whole(waiting[0].window, world_size):
                done.append(self._finish(waiting.pop(0)))
                if done[-1].trace.displaced:
                    return done  # the script is at another step than the states that were kept
            if end is not None or hung or restarted:
                if waiting and waiting[0].trace.seen:
                    waiting[0].trace.end = self._how(hung)
                    done.append(self._finish(waiting.pop(0)))
                elif not done:
                    self._fail("nothing happened" if hung else self._words())
                break
        return done

    def _fail(self, why: str) -> None:
        """A launch came to nothing, and not by a corruption. It may be the machine; again and again it is the job."""
        self._barren += 1
        if self._barren >= BARREN:
            raise Undecided(f"{BARREN} launches ended before their first window: {why}", code="reference-failed")

    def _pass_on(self, arrived: Arrived, waiting: Sequence[Trial], order_at: Any) -> None:
        """Take down what the rank shows, tell it what it is to do, and let it go on."""
        rank, order = arrived.rank, None
        if arrived.at == "step" and arrived.record is not None:
            step = arrived.n + 1
            for trial in waiting:
                if trial.window.opens <= step <= trial.window.closes:
                    trial.trace.add(rank, step, Seen.of(arrived.record))
            order = order_at(rank, step)
        if order is not None and order["do"] == "corrupt":
            (trial,) = (t for t in waiting if t.injection is not None and arrived.n + 1 in t.window.steps)
            self._numbers[self._env.corrupt(rank, order)] = rank, trial
        elif order is not None:
            self._env.order(rank, order)
        elif rank not in self._watched:
            self._watched.add(rank)
            self._env.order(rank, {"do": "watch"})
        self._env.release(rank, keep_gating=True)

    def _finish(self, trial: Trial) -> Trial:
        for number, (rank, one) in self._numbers.items():
            if one is trial:
                trial.trace.effect = self._env.corrupted(rank, number)
        return trial

    def _how(self, hung: bool) -> End:
        """How the job has ended: the first of its ranks to leave a word decides."""
        if hung:
            return End(False, "nothing happened any more", hung=True)
        told = [event for kind in ("uncaught", "process.end") for event in rank_events(self._directory, kind)]
        if not told:
            return End(False, f"its ranks died without a word: {self._words()}")
        first = min(told, key=lambda event: event.t)
        if first.kind == "process.end":
            return End(True, f"it ended by itself: {self._words()}")
        return End(bool(first["noticed"]), str(first["error"]))

    def _words(self) -> str:
        """The last line of the log that is the job's own and reads like a reason."""
        try:
            text = (self._directory / "logs" / f"launch-{self._launch}.log").read_text(errors="replace")
        except OSError:
            return "it left no log"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        own = [found[1] for line in lines if (found := _OWN.match(line))]
        telling = [line for line in own if _TELLING.search(line)]
        return (telling or own or lines or ["it said nothing"])[-1][:200]


def _empty(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
