"""`Window`: how one experiment begins late, and when it may end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from chaoskit.analysis.alignment.timeline import struck_at
from chaoskit.analysis.case import Case
from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.process_record import RecordFiles
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import converged, unequal
from chaoskit.checks import Check
from chaoskit.checks.windowed import WINDOWED
from chaoskit.engine.progress import Progress
from chaoskit.engine.record_readers import record_files
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows import earning
from chaoskit.engine.windows.audits import why_wrong
from chaoskit.engine.windows.earned import Windows
from chaoskit.engine.windows.kept_outs import OutState
from chaoskit.engine.windows.late_begin import begin_late
from chaoskit.engine.windows.why_whole import begin_before, trains_to_end, why_whole
from chaoskit.engine.windows.window_watch import WindowWatch
from chaoskit.environments.traits import StorageKind
from chaoskit.errors import StoreError
from chaoskit.faults import Fault
from chaoskit.job import Job
from chaoskit.verdict import Verdict


@dataclass
class Window:
    """The window of one `experiment`, which begins from a `state` of the uninterrupted run of `windows`. With `to_end`
    it is not ended before the job ends; nor is an `audit`, whose two verdicts are compared."""

    windows: Windows
    state: OutState
    reference: Reference
    store: Store
    progress: Progress
    experiment: str = ""
    to_end: bool = False
    audit: bool = False
    #: What was read of the record of the run that is in this window.
    files: RecordFiles = field(default_factory=lambda: record_files(keeps=True), init=False)
    _watch: WindowWatch | None = field(default=None, init=False)

    def begin(self, run_dir: Path) -> None:
        """Put the state and its record into a new run. Raises StoreError where they were altered since."""
        with self.store.writing():
            begin_late(run_dir, run_dir / "out", self.state, self.windows.source, steps=self.reference.steps)

    def watch(self, run_dir: Path) -> WindowWatch | None:
        """What ends that run; None if nothing does."""
        if not self.to_end:
            self._watch = WindowWatch(run_dir, self.reference, ends=not self.audit, files=self.files)
        return self._watch

    def audited(self, case: Case, checks: Sequence[Check], verdicts: Sequence[Verdict]) -> str:
        """Compare the verdicts on an audit with those that its window would have got: returns why windows of the job
        are wrong, after giving them up; empty if they are the same, or for a run that is no audit."""
        seen = self._watch.seen if self._watch is not None else None
        if not self.audit or seen is None:
            return ""
        why = why_wrong(case, self.reference, seen, checks, verdicts)
        with self.store.writing():
            if not why:
                self.windows.add_audit(self.experiment)
                return ""
            why = (
                f"the experiment was trained on behind its window, which ended at step {seen.end}, and {why}. What "
                "passed in windows of this job proves nothing: run the battery again, all of it is run whole from now "
                "on"
            )
            self.windows.give_up(why)
        self.progress.phase(why)
        return why

    def to_repeat(self, run_dir: Path) -> str:
        """Why the experiment has to be run whole, because nothing follows from this run of it; empty if something does.
        Where the run shows that windows of the job are wrong, the job is run whole from now on."""
        history = History.read(run_dir, like=self.reference.controls[0], files=self.files)
        if why := self._wrong(history):
            self.progress.phase(f"{why}: the job is run whole from now on")
            with self.store.writing():
                self.windows.give_up(why)
        elif history.faults and not any(fault.observed is not None for fault in history.faults):
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
    experiment: str = "",
    drawn: bool = False,
) -> Window | None:
    """The window of an experiment; None if it is run whole, after saying why. It is an audit if it was `drawn`, or if
    no other experiment of the job has been one."""
    why = why_whole(job, faults, reference, environment=environment, storage=storage)
    if not why:
        windows = earning.prepare(store, job, reference, environment=environment, progress=progress)
        state = _state(windows, faults, reference)
        try:
            _verify(windows, state)
        except StoreError as error:
            progress.phase(f"{error}: the states are made again")
            windows = earning.prepare_again(
                store, job, reference, windows, environment=environment, progress=progress
            )
            state = _state(windows, faults, reference)
        why = windows.why or ("" if state is not None else "no state was kept before the fault")
    if why:
        progress.phase(f"run whole: {why}")
        return None
    assert state is not None
    to_end = trains_to_end(faults)
    audit = not to_end and (drawn or not windows.audits)
    if audit:
        progress.phase("this window is trained on to its end, for comparison")
    return Window(windows, state, reference, store, progress, experiment, to_end, audit)


def _state(windows: Windows, faults: Sequence[Fault], reference: Reference) -> OutState | None:
    """The state that the window of these faults begins from; None if none was kept before them."""
    return windows.states.before(begin_before(faults, reference)) if not windows.why else None


def _verify(windows: Windows, state: OutState | None) -> None:
    """Raises StoreError if the state, or the record of its run, was altered since it was kept."""
    if state is not None:
        windows.verify()
        state.verify()


def needs_whole(checks: Sequence[Check]) -> bool:
    """Whether a check looks at more than a window shows."""
    return any(check.name not in WINDOWED for check in checks)
