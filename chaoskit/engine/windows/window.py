"""`Window`: how one experiment begins late, and when it may end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from chaoskit.analysis.alignment.timeline import struck_at
from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import converged, unequal
from chaoskit.checks import Check
from chaoskit.checks.windowed import WINDOWED
from chaoskit.engine.progress import Progress
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows import earning
from chaoskit.engine.windows.earning import Windows
from chaoskit.engine.windows.kept_outs import OutState
from chaoskit.engine.windows.late_begin import begin_late
from chaoskit.engine.windows.why_whole import begin_before, why_whole
from chaoskit.engine.windows.window_watch import WindowWatch
from chaoskit.environments.traits import StorageKind
from chaoskit.errors import StoreError
from chaoskit.faults import Fault
from chaoskit.job import Job


@dataclass(frozen=True)
class Window:
    """The window of one experiment, which begins from a `state` of the uninterrupted run of `windows`."""

    windows: Windows
    state: OutState
    reference: Reference
    store: Store
    progress: Progress

    def begin(self, run_dir: Path) -> None:
        """Put the state and its record into a new run. Raises StoreError where they were altered since."""
        with self.store.writing():
            begin_late(run_dir, run_dir / "out", self.state, self.windows.source, steps=self.reference.steps)

    def watch(self, run_dir: Path) -> WindowWatch:
        """What ends that run."""
        return WindowWatch(run_dir, self.reference)

    def to_repeat(self, run_dir: Path) -> str:
        """Why the experiment has to be run whole, because nothing follows from this run of it; empty if something does.
        Where the run shows that windows of the job are wrong, the job is run whole from now on."""
        history = History.read(run_dir)
        if why := self._wrong(history):
            self.progress.phase(f"{why}: the job is run whole from now on")
            with self.store.writing():
                earning.give_up(self.windows, why)
        elif not any(fault.observed is not None for fault in history.faults):
            why = "no fault took effect in the window"
            self.progress.phase(f"{why}: once more, whole")
        return why

    def _wrong(self, history: History) -> str:
        """Why the window was wrong: the run differed from the reference before the first fault, or, where it was ended
        in its window, in its last steps."""
        struck = min((t for t in map(struck_at, history.faults) if t is not None), default=inf)
        first = next((inc for inc in history.incarnations if inc.launch == 1 and inc.first_step is not None), None)
        if first is None:
            return f"a run that began at step {self.state.save + 1} took no step"
        why = unequal(history, self.reference, incarnation=first.index, base=self.state.save, before=struck)
        if why:
            return f"a run that began at step {self.state.save + 1} {why}, before any fault"
        if history.end == "window" and converged(history, self.reference) is None:
            return "a run that was ended in its window differed from the reference in its last steps"
        return ""


def plan_window(
    job: Job,
    faults: Sequence[Fault],
    reference: Reference,
    *,
    store: Store,
    environment: str,
    progress: Progress,
    storage: StorageKind = "",
) -> Window | None:
    """The window of an experiment; None if it is run whole, after saying why."""
    why = why_whole(job, faults, reference, environment=environment, storage=storage)
    if not why:
        windows = earning.prepare(store, job, reference, environment=environment, progress=progress)
        why = windows.why
    if why:
        progress.phase(f"run whole: {why}")
        return None
    state = windows.states.before(begin_before(faults))
    if state is None:
        progress.phase("run whole: no state was kept before the fault")
        return None
    try:
        windows.verify()
        state.verify()
    except StoreError as error:
        progress.phase(f"run whole: {error}")
        return None
    return Window(windows, state, reference, store, progress)


def needs_whole(checks: Sequence[Check]) -> bool:
    """Whether a check looks at more than a window shows."""
    return any(check.name not in WINDOWED for check in checks)
