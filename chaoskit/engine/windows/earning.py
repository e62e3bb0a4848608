"""`prepare`: the states from which experiments of a job may begin, once the job has earned its windows.

chaoskit keeps `{out}` at some saves of an uninterrupted run that equals the reference (see `Keeping`). Then a run that
begins late shows whether the job continues exactly from such a state (see `LateRun`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.divergence import part
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.execution import execute_uninterrupted
from chaoskit.engine.progress import Progress
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows import earned
from chaoskit.engine.windows.earned import OUTS, Windows
from chaoskit.engine.windows.keeping import Keeping, why_nothing_to_keep
from chaoskit.engine.windows.kept_outs import KeptOuts
from chaoskit.engine.windows.late_run import LateRun
from chaoskit.files.removal import remove
from chaoskit.job import Job

#: The run in which states are kept, if the second control kept none.
KEEPING = "windows"


def prepare(store: Store, job: Job, reference: Reference, *, environment: str, progress: Progress) -> Windows:
    """What is stored for the job, if that is complete, else the result of further runs."""
    store.prepare()
    directory = earned.directory_of(store, reference)
    controls = earned.ids_of_controls(store, reference)
    with FileLock(f"{directory}.windows.lock"):
        found = earned.load(directory, controls)
        if found is not None:
            return found
        source, why = _Earning(store, job, reference, environment, progress).earn()
        with store.writing():
            source.mkdir(parents=True, exist_ok=True)
            return earned.keep(source, controls, why=why)


def prepare_again(
    store: Store, job: Job, reference: Reference, old: Windows, *, environment: str, progress: Progress
) -> Windows:
    """Make the states of a job again, because some were altered since they were kept."""
    with FileLock(f"{earned.directory_of(store, reference)}.windows.lock"), store.writing():
        remove(old.source / OUTS, within=store.root)
        remove(old.source.parent / earned.RESULT, within=store.root)
    return prepare(store, job, reference, environment=environment, progress=progress)


@dataclass(frozen=True)
class _Earning:
    store: Store
    job: Job
    reference: Reference
    environment: str
    progress: Progress

    def earn(self) -> tuple[Path, str]:
        """Make the runs that are needed. Returns the directory of the run whose states were kept, and why the job is
        not run in windows, empty if it is."""
        directory = earned.directory_of(self.store, self.reference)
        source = directory / "control-1"
        why = why_nothing_to_keep(self.reference)
        if not why and not KeptOuts.read(source / OUTS).states:
            source = directory / KEEPING
            why = self._keep(source)
        if not why:
            late = LateRun(self.store, self.job, self.reference, self.environment, self.progress)
            why = late.why_not(KeptOuts.read(source / OUTS))
        return source, why

    def _keep(self, source: Path) -> str:
        """Run the job once more and keep its states; returns why there are none, empty if there are."""
        self.progress.phase("keeping states of an uninterrupted run")
        run_dir = self.store.new_run_beside(
            self.reference.digest, source.name, job=self.job.to_json(), environment=self.environment
        )
        keeping = Keeping.of(run_dir, self.reference, store=self.store)
        assert keeping is not None
        status = execute_uninterrupted(
            run_dir,
            self.job,
            self.reference,
            store=self.store,
            environment=self.environment,
            progress=self.progress,
            keeper=keeping.keeper,
        )
        history = History.read(run_dir)
        if status != "finished" or len(history.incarnations) != 1:
            return f"the run whose states chaoskit keeps did not finish ({status})"
        if (divergence := part(self.reference.controls[0], history, self.reference.idle)) is not None:
            return f"the run whose states chaoskit keeps differs from the reference: {divergence.sentence}"
        keeping.write(self.store, self.progress)
        return keeping.why_none
