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
from chaoskit.engine.windows.audits import SessionAudits, why_wrong
from chaoskit.engine.windows.earned import Windows
from chaoskit.engine.windows.kept_outs import OutState
from chaoskit.engine.windows.late_begin import begin_at_first_step, begin_late
from chaoskit.engine.windows.why_whole import begin_before, why_whole
from chaoskit.engine.windows.window_watch import WindowWatch
from chaoskit.environments.traits import StorageKind
from chaoskit.errors import StoreError
from chaoskit.faults import Fault
from chaoskit.job import Job
from chaoskit.verdict import Verdict


@dataclass
class Window:
    """The window of one `experiment`. It begins from a `state` of the uninterrupted run of `windows`, or with the first
    step if no state was kept before the fault. With `to_end` it ends only with the job. An audit, one of `audits`, is
    run whole as well."""

    windows: Windows
    state: OutState | None
    reference: Reference
    store: Store
    progress: Progress
    experiment: str = ""
    to_end: bool = False
    audits: SessionAudits | None = None
    #: What was read of the record of the run in this window.
    files: RecordFiles = field(default_factory=lambda: record_files(keeps=True), init=False)

    def begin(self, run_dir: Path) -> None:
        """Put the state and its record into a new run. Raises StoreError if they were altered since."""
        with self.store.writing():
            if self.state is None:
                begin_at_first_step(run_dir, steps=self.reference.steps)
            else:
                begin_late(run_dir, run_dir / "out", self.state, self.windows.source, steps=self.reference.steps)

    def watch(self, run_dir: Path) -> WindowWatch | None:
        """The watch that ends that run in its window; None if it is not ended."""
        return None if self.to_end else WindowWatch(run_dir, self.reference, files=self.files)

    def compare(self, whole: Case, early: Sequence[Verdict], verdicts: Sequence[Verdict]) -> str:
        """Compare the `early` verdicts on this window, an audit, with those on the `whole` run of its experiment.
        Returns why windows of the job are wrong, after giving them up; empty if the verdicts are the same."""
        why = why_wrong(whole, early, verdicts)
        with self.store.writing():
            if not why:
                self.windows.add_audit(self.experiment)
                return ""
            why = (
                f"the experiment was run in a window, and then whole, and {why}. What passed in windows of this job "
                "proves nothing: run the battery again, all of it is run whole from now on"
            )
            self.windows.give_up(why)
        self.progress.phase(why)
        return why

    def to_repeat(self, run_dir: Path) -> str:
        """Why the experiment must be run again, whole, because this run proves nothing; empty if it proves something.
        If the run shows that windows of the job are wrong, the job is run whole from now on."""
        history = History.read(run_dir, like=self.reference.controls[0], files=self.files)
        if why := self._wrong(history):
            self.progress.phase(f"{why}: the job is run whole from now on")
            with self.store.writing():
                self.windows.give_up(why)
        elif history.faults and not any(fault.observed is not None for fault in history.faults):
            why = "no fault took effect in the window"
            self.progress.phase(f"{why}: once more, whole")
        if why:
            self.release()
        return why

    def release(self) -> None:
        """Let another experiment be audited instead: this one is run again, whole, or never equalled the reference."""
        if self.audits is not None:
            self.audits.release(self.reference.digest, self.experiment)

    def _wrong(self, history: History) -> str:
        """Why the window was wrong: the run differed from the reference before the first fault, or in its last steps,
        if it was ended in its window."""
        struck = min((t for t in map(struck_at, history.faults) if t is not None), default=inf)
        launch, base = (1, self.state.save) if self.state is not None else (0, 0)
        stepped = (inc for inc in history.incarnations if inc.launch == launch and inc.first_step is not None)
        first = next(stepped, None)
        if first is None and self.state is not None:
            return f"a run that began at step {base + 1} took no step"
        # If the run began with the first step, a fault may have struck before that step.
        if first is not None and (self.state is not None or (first.first_step or 0.0) < struck):
            why = unequal(history, self.reference, incarnation=first.index, base=base, before=struck)
            if why:
                return f"a run that began at step {base + 1} {why}, before any fault"
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
    audits: SessionAudits,
) -> Window | None:
    """The window of an experiment; None if it is run whole, after saying why. `audits` are those of the session."""
    why = why_whole(job, faults, reference, environment=environment, storage=storage)
    state = None
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
        why = windows.why or ("" if faults or state is not None else "no state was kept that it could begin from")
    audit = False
    if why or not _shows(state, faults, reference):
        audits.pass_on(reference.digest, experiment)
    else:
        audit = audits.claim(reference.digest, experiment, first=not windows.audits)
    if why:
        progress.phase(f"run whole: {why}")
        return None
    if audit:
        progress.phase("this experiment is run in a window, and then whole, for comparison")
    to_end = not faults  # only the end is left to see
    return Window(windows, state, reference, store, progress, experiment, to_end, audits if audit else None)


def _state(windows: Windows, faults: Sequence[Fault], reference: Reference) -> OutState | None:
    """The state that the window of these faults begins from; None if none was kept before them."""
    step = begin_before(faults, reference)
    return windows.states.before(step) if not windows.why and step is not None else None


def _shows(state: OutState | None, faults: Sequence[Fault], reference: Reference) -> bool:
    """Whether an audit would show something: at least a third of the training is left after the state."""
    return bool(faults) and 3 * (reference.steps - (state.at if state is not None else 0)) >= reference.steps


def _verify(windows: Windows, state: OutState | None) -> None:
    """Raises StoreError if the state, or the record of its run, was altered since it was kept."""
    if state is not None:
        windows.verify()
        state.verify()


def needs_whole(checks: Sequence[Check]) -> bool:
    """Whether a check looks at more than a window shows."""
    return any(check.name not in WINDOWED for check in checks)
