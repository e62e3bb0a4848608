"""`Runner` runs one experiment, `Run` is its result.

A runner gets the reference of the job, resolves the triggers against it, runs the job in an environment while the
faults are injected, and returns the run, which is judged by its record alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from chaoskit import checks as registry
from chaoskit import environments
from chaoskit import faults as catalogue
from chaoskit.analysis.case import Case
from chaoskit.analysis.record.history import History
from chaoskit.analysis.recovery.recovery import Summary, summary
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import converged
from chaoskit.analysis.windows.rest import with_rest
from chaoskit.capabilities import LIMITS, CanFailStorage
from chaoskit.checks import Check, judge
from chaoskit.engine import reference_store, stored_json, target_validation
from chaoskit.engine.arguments import check_checks, check_faults, check_job
from chaoskit.engine.planned_run import PlannedRun
from chaoskit.engine.progress import Progress, quiet
from chaoskit.engine.record_readers import record_files
from chaoskit.engine.reference_maker import ReferenceMaker
from chaoskit.engine.ruling import Ruling
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows import keeping
from chaoskit.engine.windows.audits import SessionAudits
from chaoskit.engine.windows.window import Window, needs_whole, plan_window
from chaoskit.environments.launch.mode import Mode, wish
from chaoskit.environments.traits import StorageKind
from chaoskit.errors import CheckFailed, Inconclusive, StoreError, UsageError
from chaoskit.faults import Fault
from chaoskit.faults.fault import action_traits, check_nodes
from chaoskit.faults.triggers import Every
from chaoskit.files.removal import remove
from chaoskit.job import Job
from chaoskit.protocol.io_journal import NAME as JOURNAL
from chaoskit.protocol.io_journal import Journal, JournalError
from chaoskit.protocol.putting_back import PutBack
from chaoskit.schema import SchemaError
from chaoskit.validation import check_choice, check_flag
from chaoskit.verdict import Outcome, Verdict, inconclusive, merge


@dataclass
class Run:
    """One execution of a job under faults, stored in `dir`. `verdicts` are those of the last `judge`. `rule` decides
    what of them counts for `verify`, and `ruling` is what it decided last (None: every verdict counts)."""

    id: str
    dir: Path
    job: Job
    store: Store
    reference: Reference | None
    experiment: str = ""
    verdicts: tuple[Verdict, ...] = ()
    rule: Rule | None = None
    ruling: Ruling | None = None
    #: Why the last verdicts could not be kept beside the record; empty if they were.
    unkept: str = ""
    #: In which window it was run; None for a whole run.
    window: Window | None = None
    #: Whether it is a whole run that was compared with one in a window.
    audited: bool = False
    #: Runs the same experiment from the first step to the last one; None where that is done already, or cannot be.
    whole: Callable[[], Run] | None = None

    @cached_property
    def history(self) -> History:
        """The record of the run. Of one that was ended at the end of its window, the rest is that of the reference."""
        like = self.reference.controls[0] if self.reference is not None else None
        files = self.window.files if self.window is not None else record_files()
        history = History.read(self.dir, like=like, files=files)
        if history.end != "window" or self.reference is None:
            return history
        found = converged(history, self.reference)
        return with_rest(history, self.reference, found) if found is not None else history

    @cached_property
    def case(self) -> Case:
        """The run as checks get it: the history beside its reference."""
        return Case(self.history, self.reference, self.journal)

    @cached_property
    def journal(self) -> Journal | None:
        """The record of the job's file operations, where they were watched. Raises StoreError for a damaged one."""
        try:
            return Journal.read(self.dir) if (self.dir / JOURNAL).is_dir() else None
        except JournalError as error:
            raise StoreError(str(error), path=str(self.dir / JOURNAL)) from error

    @property
    def summary(self) -> Summary:
        """The figures of the worst fault: resumed from, last valid, steps lost, seconds to recover."""
        return summary(self.case)

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of the last verdicts; inconclusive where nothing was judged."""
        return merge(verdict.outcome for verdict in self.verdicts)

    def judge(self, *checks: Check, must_keep: bool = True) -> tuple[Verdict, ...]:
        """Apply the checks to the record and keep their verdicts beside it; raises nothing for a fail. A verdict needs
        no write: unless it `must_keep` them, `unkept` says why they could not be kept."""
        check_flag("Run.judge", "must_keep", must_keep)
        if not checks:
            raise UsageError("Run.judge: give at least one check: without a check there is no evidence")
        check_checks("Run.verify", checks)
        if self.whole is not None and self.window is not None and needs_whole(checks):
            self.window.release()
            self._become(self.whole())
        self.verdicts, self.ruling, self.unkept = judge(self.case, checks), None, ""
        if self.whole is not None and self.window is not None:
            window, whole, early = self.window, self.whole, self.verdicts
            if self.outcome is not Outcome.PASS:
                # A window only ever passes: it has one resume more, and one that fails may come of that.
                window.release()
                self._become(whole())
                self.verdicts = judge(self.case, checks)
            elif self.case.trained_to_end:
                window.release()  # it need not equal the reference, and no argument ended it
            elif window.audits is not None:
                self._become(whole())
                self.audited, self.verdicts = True, judge(self.case, checks)
                if wrong := window.compare(self.case, early, self.verdicts):
                    self.verdicts = (*self.verdicts, inconclusive("windows", wrong, "window-wrong"))
        try:
            told = [check.to_json() for check in checks]
            self.store.write_verdicts(self.dir, checks=told, verdicts=self.verdicts)
        except (StoreError, OSError) as error:
            if must_keep:
                raise
            self.unkept = str(error)
        return self.verdicts

    def _become(self, other: Run) -> None:
        """Go on as another run of the same experiment, because a check looks at more than a window."""
        remove(self.dir, within=self.store.root)
        for name in ("history", "case", "journal"):
            self.__dict__.pop(name, None)
        self.id, self.dir, self.window, self.whole = other.id, other.dir, None, None

    def verify(self, *checks: Check) -> tuple[Verdict, ...]:
        """Judge, and raise CheckFailed if any check failed, Inconclusive if any could not be decided. A fail whose
        codes are all accepted raises nothing."""
        __tracebackhide__ = True
        verdicts = self.judge(*checks)
        self.ruling = self.rule(self, verdicts) if self.rule is not None else Ruling(verdicts)
        outcome = self.ruling.outcome
        bad = [verdict for verdict in self.ruling.verdicts if verdict.outcome is outcome]
        message = "\n".join(f"{v.check}: {', '.join(v.codes)}: {v.sentence}" for v in bad)
        if outcome is Outcome.FAIL:
            raise CheckFailed(message, verdicts=verdicts, run=str(self.dir))
        if outcome is Outcome.INCONCLUSIVE:
            raise Inconclusive(message, verdicts=verdicts, run=str(self.dir))
        return verdicts


#: Decides what counts of the verdicts on a run (see `studies.problems.acceptance`); raises nothing for a fail.
Rule = Callable[[Run, Sequence[Verdict]], Ruling]


class Runner:
    """Runs jobs in one environment and stores the runs; tests get it as `chaos`.

    `runs` are those made so far. Options given here override those of the job: `relaunches`, `timeout` and
    `hang_after` (seconds), `resume_args`, `controls`, `record_every`, `log_regex`, `log_file`, `stops_with`.
    `launch` is `cold`, `warm`, or `auto`: warm where a warm control equals a cold one. `rule` decides what of the
    verdicts on its runs counts (None: all of them). With `windows`, an experiment begins from a kept state of an
    uninterrupted run and ends once the job equals the reference again, where the job has earned that: `always`,
    `auto` (where the job trains long enough for that to pay) or `never` (see `chaoskit.engine.windows`). `audits` are
    those of the session: experiments in windows that are run whole as well, so that both verdicts can be compared.
    """

    def __init__(
        self,
        store: Store,
        *,
        environment: str = environments.DEFAULT_ENVIRONMENT,
        experiment: str = "",
        progress: Progress = quiet,
        launch: str = "auto",
        rule: Rule | None = None,
        windows: str = "never",
        audits: SessionAudits | None = None,
        **options: Any,
    ) -> None:
        self.store = store
        self.windows = keeping.wish(windows)
        self.audits = audits if audits is not None else SessionAudits()
        self.environment = environment
        self.experiment = experiment
        self.progress = progress
        self.launch = wish(launch)
        self.rule = rule
        self.runs: list[Run] = []
        self._options = {name: value for name, value in options.items() if value is not None}
        environments.environment(environment)

    def reference(self, job: Job) -> Reference:
        """The reference of the job: the stored one, if it still holds, else a new one (see `ReferenceMaker`).

        Raises ReferenceFailed where the job gives none, UsageError where it cannot be launched.
        """
        job = self._with_options(check_job("chaos.reference", job))
        job.validate(files_here=environments.environment(self.environment).traits.files_here)
        environments.must_fit(self.environment, job.nodes)
        environments.must_have(self.environment)
        maker = ReferenceMaker(
            store=self.store,
            environment=self.environment,
            launch=self.launch,
            progress=self.progress,
            windows=self.windows,
        )
        return maker.reference(job)

    def run(
        self,
        job: Job,
        *faults: Fault,
        storage: StorageKind = "",
        relaunch_mode: Mode | None = None,
        put_back: PutBack | None = None,
    ) -> Run:
        """Run the job and inject the faults, one after the other, until its end, its last relaunch, or its deadline.

        `storage` mounts a file system of chaoskit's at its `{out}` (see `RunSpec`); faults that need one get it anyway.
        A `relaunch_command` is launched in `relaunch_mode` (default: cold). `put_back` tells the ranks which state
        to put back after a resume.
        Raises UsageError for a fault without trigger, for a rank that the job does not have and a name that none of its
        tensors has, MissingCapability for a fault that the environment cannot inject, and what `reference` raises.
        """
        job = self._with_options(check_job("chaos.run", job))
        check_faults("chaos.run", faults)
        check_choice("chaos.run", "storage", storage, get_args(StorageKind))
        described = [fault.to_json() for fault in faults]
        for fault in faults:
            environments.must_offer(self.environment, fault.action.needs, to=fault, job=job)
        failing = [fault for fault in faults if CanFailStorage in fault.action.needs]
        watched = storage
        if failing and not storage:
            picking = [fault for fault in failing if action_traits(fault.action).picks_requests]
            storage = environments.failing_storage(self.environment, picking)
        some_nodes = any(action_traits(fault.action).some_nodes for fault in faults)
        environments.must_store(self.environment, storage, per_node=some_nodes)
        limits: tuple[str, ...] = ()
        for fault in faults:
            check_nodes(fault, job.nodes.most)
            needed = (LIMITS[capability] for capability in fault.action.needs if capability in LIMITS)
            limits = tuple(dict.fromkeys((*limits, *needed)))
        metadata, imdsv1 = _metadata(faults)
        reference = self.reference(job)
        resolved = []
        for fault in faults:
            assert fault.trigger is not None
            fault = replace(fault, trigger=fault.trigger.resolve(reference))
            target_validation.check(fault, reference)
            resolved.append(fault)
        strikes = sum(isinstance(fault.trigger, Every) for fault in faults)
        # Each strike of a schedule may cost a relaunch that the job cannot help.
        job = replace(job, relaunches=max(job.relaunches, strikes))

        planned = PlannedRun(
            store=self.store,
            environment=self.environment,
            experiment=self.experiment,
            progress=self.progress,
            job=job,
            reference=reference,
            faults=tuple(resolved),
            asked=tuple(each["text"] for each in described),
            mode=relaunch_mode,
            storage=storage,
            limits=limits,
            metadata=metadata,
            imdsv1=imdsv1,
            put_back=put_back,
        )
        window = None
        if put_back is None and not metadata and keeping.pays(reference, wish=self.windows):
            window = plan_window(
                job,
                resolved,
                reference,
                store=self.store,
                environment=self.environment,
                progress=self.progress,
                storage=watched,
                experiment=self.experiment,
                audits=self.audits,
            )
        run = self._made(planned, window)
        if window is not None and window.to_repeat(run.dir):
            remove(run.dir, within=self.store.root)
            run = self._made(planned, None)
        elif window is not None:
            # An audit compares each step with the reference.
            run.window, run.whole = window, lambda: self._made(planned, None, every_step=window.audits is not None)
        self.runs.append(run)
        self.progress.phase("judging")
        return run

    def _made(self, planned: PlannedRun, window: Window | None, *, every_step: bool = False) -> Run:
        run_dir = planned.execute(window, every_step=every_step)
        return Run(
            run_dir.name, run_dir, planned.job, self.store, planned.reference, self.experiment, rule=self.rule
        )

    def _with_options(self, job: Job) -> Job:
        return replace(job, **self._options).with_secrets(os.environ)


def _metadata(faults: Sequence[Fault]) -> tuple[str, bool]:
    """The cloud whose metadata service the faults need, and whether it answers without a token. Raises UsageError for
    several clouds: a node has one."""
    traits = [action_traits(fault.action) for fault in faults]
    clouds = sorted({each.metadata for each in traits} - {""})
    if len(clouds) > 1:
        raise UsageError(f"a node is in one cloud only, and the faults of this run need {' and '.join(clouds)}")
    versions = {each.imdsv1 for each in traits if each.metadata}
    if len(versions) > 1:
        raise UsageError("imdsv1 holds for a whole run: give it to all faults of the run, or to none")
    return (clouds[0] if clouds else ""), any(versions)


def stored(run_dir: Path, store: Store) -> Run:
    """The run stored in a directory, with the reference beside it; raises StoreError for anything else."""
    content = store.read(run_dir)
    try:
        job = Job.from_json(content["job"])
    except SchemaError as error:
        what = f"is damaged ({error.below('.job')})"
        raise stored_json.unreadable(run_dir / "run.json", what, "restore it from a copy") from error
    except (ValueError, UsageError) as error:
        raise StoreError(f"{run_dir}: its job cannot be read: {error}", path=str(run_dir)) from error
    reference = reference_store.attached(run_dir, str(content["reference"]))
    return Run(run_dir.name, run_dir, job, store, reference, content["experiment"])


def analyze(run: Run) -> tuple[Verdict, ...]:
    """Judge a stored run again, by the checks that were applied to it; runs nothing. A store that cannot be written
    stays as it is (see `Run.judge`)."""
    checks = (registry.from_json(each) for each in run.store.read_verdicts(run.dir).checks)
    return run.judge(*checks, must_keep=False)


def replay(run: Run, runner: Runner, *, put_back: PutBack | None = None) -> Run:
    """Run the stored schedule of `run` again, with the same job, and apply the same checks. `put_back`: see
    `Runner.run`."""
    content = run.store.read(run.dir)
    checks = [registry.from_json(each) for each in run.store.read_verdicts(run.dir).checks]
    faults = [catalogue.from_json(fault) for fault in content["schedule"]]
    again = runner.run(run.job, *faults, put_back=put_back)
    again.judge(*checks)
    return again
