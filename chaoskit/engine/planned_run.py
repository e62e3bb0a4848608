"""`PlannedRun`: one run of a job under faults whose moments are known, as it is executed: whole or in a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit.analysis.reference.reference import Reference
from chaoskit.capabilities import CanCorruptNumbers
from chaoskit.engine import reference_store
from chaoskit.engine.execution import execute
from chaoskit.engine.progress import Progress
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows.window import Window
from chaoskit.environments.launch.mode import COLD, Mode
from chaoskit.environments.traits import StorageKind
from chaoskit.faults import Fault
from chaoskit.job import Job
from chaoskit.protocol import putting_back
from chaoskit.protocol.putting_back import PutBack


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """What is run. The triggers of `faults` have been resolved, and `asked` has each in the words of the experiment.
    `mode` is how a `relaunch_command` is launched (None: cold); see `Runner.run` and `RunSpec` for the rest."""

    store: Store
    environment: str
    experiment: str
    progress: Progress
    job: Job
    reference: Reference
    faults: tuple[Fault, ...]
    asked: tuple[str, ...]
    mode: Mode | None = None
    storage: StorageKind = ""
    limits: tuple[str, ...] = ()
    metadata: str = ""
    imdsv1: bool = False
    put_back: PutBack | None = None

    def execute(self, window: Window | None, *, every_step: bool = False) -> Path:
        """Run it, in a window or whole; returns the directory of the new run. With `every_step`, the state of each one
        is recorded."""
        store, job, reference = self.store, self.job, self.reference
        run_dir = store.new_run(
            job=job.to_json(),
            schedule=[
                {**fault.to_json(), "asked": asked} for fault, asked in zip(self.faults, self.asked, strict=True)
            ],
            experiment=self.experiment,
            environment=self.environment,
            reference=reference.digest,
        )
        reference_store.attach(reference, run_dir)
        if self.put_back is not None:
            with store.writing():
                putting_back.write(self.put_back, run_dir)
            store.update(run_dir, put_back=list(self.put_back.components))
        if window is not None:
            window.begin(run_dir)
        with reference_store.own_port(store, reference, self.environment, self.progress):
            execute(
                run_dir,
                job,
                store=store,
                environment=self.environment,
                progress=self.progress,
                faults=self.faults,
                reference=reference,
                deadline=job.timeout or _deadline(job, self.faults, reference),
                mode=Mode.from_json(reference.mode),
                relaunch_mode=(self.mode or COLD) if job.relaunch_command else None,
                storage=self.storage,
                limits=self.limits,
                metadata=self.metadata,
                imdsv1=self.imdsv1,
                late=window is not None and window.state is not None,
                watch=window.watch(run_dir) if window is not None else None,
                # A window is short, and ends once enough steps in succession equal the reference.
                record_every=1 if every_step or window is not None or self.needs_every_step else job.record_every,
            )
        return run_dir

    @property
    def needs_every_step(self) -> bool:
        """Whether a verdict on the run rests on the state of every step: where numbers are corrupted, for what that
        changed, and when; where state is put back, to prove that nothing else is lost; and where another number of
        ranks, or another command, may go on from what this run had."""
        corrupted = any(CanCorruptNumbers in fault.action.needs for fault in self.faults)
        return corrupted or self.put_back is not None or self.job.nodes.elastic or bool(self.job.relaunch_command)


def _deadline(job: Job, faults: Sequence[Fault], reference: Reference) -> float:
    """The default deadline of a run in seconds: four times an uninterrupted run for each launch, and the time that its
    faults last or wait."""
    frozen = sum(fault.action.heal_after or 0.0 for fault in faults)
    delayed = sum(getattr(fault.trigger, "delay", None) or 0.0 for fault in faults)
    return 60.0 + frozen + delayed + 4.0 * reference.seconds * (1 + job.relaunches + job.agent_restarts)
