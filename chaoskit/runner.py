"""`Runner` runs an experiment, `Run` is what came of it.

A runner makes the reference of a job where none is kept, resolves the triggers against it, carries the job through the
faults in an environment, and hands back the run, which judges itself by the record alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from chaoskit import aim, launching, references, witness
from chaoskit import checks as registry
from chaoskit import faults as catalogue
from chaoskit.capabilities import REMEDIES, CanFailStorage
from chaoskit.checks import Check, judge
from chaoskit.checks.check import Case
from chaoskit.controller import Controller
from chaoskit.environments import environment as environment_named
from chaoskit.environments.environment import Place, Storing
from chaoskit.errors import (
    CannotWarm,
    CheckFailed,
    Inconclusive,
    MissingCapability,
    ReferenceFailed,
    StoreError,
    UsageError,
)
from chaoskit.events import EventWriter
from chaoskit.faults import Fault
from chaoskit.faults.fault import check_nodes
from chaoskit.history import History
from chaoskit.job import Job
from chaoskit.journal import NAME as JOURNAL
from chaoskit.journal import Journal
from chaoskit.launch.mode import COLD, Mode, wish
from chaoskit.progress import Progress, quiet
from chaoskit.recovery import Summary, summary
from chaoskit.reference import Reference
from chaoskit.store import Store
from chaoskit.verdict import Outcome, Verdict, merge

#: The deadline of an uninterrupted run in seconds, where the job sets none.
CONTROL_DEADLINE = 1800.0


@dataclass
class Run:
    """One execution of a job under faults, stored in `dir`. `verdicts` are those of the last `judge`."""

    id: str
    dir: Path
    job: Job
    store: Store
    reference: Reference | None
    experiment: str = ""
    verdicts: tuple[Verdict, ...] = ()

    @cached_property
    def history(self) -> History:
        """The record of the run."""
        return History.read(self.dir)

    @cached_property
    def case(self) -> Case:
        """What checks are given: the history beside its reference."""
        return Case(self.history, self.reference, self.journal)

    @cached_property
    def journal(self) -> Journal | None:
        """What the job did to its storage, where that was watched."""
        return Journal.read(self.dir) if (self.dir / JOURNAL).is_dir() else None

    @property
    def summary(self) -> Summary:
        """Resumed from, last valid, steps lost, seconds to recover: of the worst fault."""
        return summary(self.case)

    @property
    def outcome(self) -> Outcome:
        """Of everything that was judged; of nothing, inconclusive."""
        return merge(verdict.outcome for verdict in self.verdicts)

    def judge(self, *checks: Check) -> tuple[Verdict, ...]:
        """Apply the checks to the record and keep their verdicts beside it; raises nothing for a fail."""
        if not checks:
            raise UsageError("Run.judge: give at least one check; no check is no evidence")
        self.verdicts = judge(self.case, checks)
        self.store.write_verdicts(self.dir, checks=[check.to_json() for check in checks], verdicts=self.verdicts)
        return self.verdicts

    def verify(self, *checks: Check) -> tuple[Verdict, ...]:
        """Judge, and raise CheckFailed if any check failed, Inconclusive if any could not be decided."""
        __tracebackhide__ = True
        verdicts = self.judge(*checks)
        bad = [verdict for verdict in verdicts if verdict.outcome is self.outcome]
        message = "\n".join(f"{v.check}: {', '.join(v.codes)}: {v.sentence}" for v in bad)
        if self.outcome is Outcome.FAIL:
            raise CheckFailed(message, verdicts=verdicts, run=str(self.dir))
        if self.outcome is Outcome.INCONCLUSIVE:
            raise Inconclusive(message, verdicts=verdicts, run=str(self.dir))
        return verdicts


class Runner:
    """Runs jobs in one environment and stores what comes of it; what a test gets as `chaos`.

    `runs` are those made so far. Options set here go over those of the job: `relaunches`, `timeout` (seconds),
    `resume_args`, `controls`, `log_regex`, `log_file`. `launch` says how processes come into being: `cold`, `warm`, or
    `auto`, which is warm where a warm control agrees with a cold one.
    """

    def __init__(
        self,
        store: Store,
        *,
        environment: str = "local",
        experiment: str = "",
        progress: Progress = quiet,
        launch: str = "auto",
        **options: Any,
    ) -> None:
        self.store = store
        self.environment = environment
        self.experiment = experiment
        self.progress = progress
        self.launch = wish(launch)
        self.runs: list[Run] = []
        self._options = {name: value for name, value in options.items() if value is not None}
        environment_named(environment)

    def reference(self, job: Job) -> Reference:
        """The uninterrupted runs of the job: kept ones, or two new ones, made under a lock by whoever comes first.

        Raises ReferenceFailed where the job gives none, UsageError where it cannot be launched.
        """
        job = self._with_options(job)
        job.validate()
        self._must_have(job)
        name = references.digest(job, launch=self.launch, environment=self.environment)
        waiting = "waiting for the reference, which another process is making"
        with references.lock(self.store, name, waiting=lambda: self.progress.phase(waiting)):
            kept = references.load(self.store, name)
            enough = kept is not None and (kept.deterministic or len(kept.controls) >= job.controls)
            return kept if kept is not None and enough else self._make_reference(job, name)

    def run(self, job: Job, *faults: Fault, storage: Storing = "", relaunch_mode: Mode | None = None) -> Run:
        """Carry the job through the faults, one after the other, to its end, its last relaunch, or its deadline.

        `storage` makes its `{out}` a file system of ours (see `Place`), which it is for faults that need one anyway.
        Relaunches of a `relaunch_command` are made in `relaunch_mode` (default: cold).
        Raises UsageError for a fault without trigger, for a rank that the job does not have or a name that none of its
        tensors has, MissingCapability for one that the environment cannot do, and what `reference` raises.
        """
        job = self._with_options(job)
        described = [fault.to_json() for fault in faults]
        self._must_offer(faults)
        if not storage and any(CanFailStorage in fault.action.needs for fault in faults):
            storage = "watched"
        if storage not in get_args(Storing):
            raise UsageError(f"Runner.run: storage must be one of {', '.join(map(repr, get_args(Storing)))}")
        if storage:
            self._must_store()
        for fault in faults:
            check_nodes(fault, job.nodes.most)
        reference = self.reference(job)
        resolved = []
        for fault in faults:
            assert fault.trigger is not None
            fault = replace(fault, trigger=fault.trigger.resolve(reference))
            aim.check(fault, reference)
            resolved.append(fault)
        run_dir = self.store.new_run(
            job=job.to_json(),
            schedule=[
                {**fault.to_json(), "asked": asked["text"]}
                for fault, asked in zip(resolved, described, strict=True)
            ],
            experiment=self.experiment,
            environment=self.environment,
            reference=reference.digest,
        )
        references.attach(reference, run_dir)
        deadline = job.timeout or _deadline(job, resolved, reference)
        again = (relaunch_mode or COLD) if job.relaunch_command else None
        with self._turn(reference):
            self._execute(
                run_dir,
                job,
                faults=resolved,
                reference=reference,
                deadline=deadline,
                mode=Mode.from_json(reference.mode),
                relaunch_mode=again,
                storage=storage,
            )
        run = Run(run_dir.name, run_dir, job, self.store, reference, self.experiment)
        self.runs.append(run)
        self.progress.phase("judging")
        return run

    def _turn(self, reference: Reference) -> AbstractContextManager[object]:
        """Where the job always takes the same port of this machine, one run of it after the other."""
        if reference.port is None or self.environment != "local":
            return nullcontext()
        waiting = f"waiting for port {reference.port}, at which the job meets in every launch"
        return references.turn_at(self.store, reference.port, waiting=lambda: self.progress.phase(waiting))

    def _with_options(self, job: Job) -> Job:
        return replace(job, **self._options) if self._options else job

    def _must_have(self, job: Job) -> None:
        """Raises UsageError for an environment that has no nodes to give, MissingCapability for one that cannot be used
        on this machine."""
        kind = environment_named(self.environment)
        if job.nodes.most > 1 and not getattr(kind, "has_nodes", False):
            raise UsageError(
                f"nnodes={job.nodes}: environment {self.environment!r} has one node only; use --env netns"
            )
        if (why := kind.available()) is not None:
            name = self.environment
            raise MissingCapability(
                f"environment {name!r} cannot be used here: {why}", capability=name, remedy=why
            )

    def _must_offer(self, faults: Sequence[Fault]) -> None:
        """Raises MissingCapability for the first thing that a fault needs and the environment does not have."""
        kind = environment_named(self.environment)
        for fault in faults:
            for need in fault.action.needs:
                if not (isinstance(kind, type) and issubclass(kind, need)):
                    remedy = REMEDIES.get(need.__name__, "use another environment: --env NAME")
                    raise MissingCapability(
                        f"{fault} needs {need.__name__}, which environment {self.environment!r} lacks: {remedy}",
                        capability=need.__name__,
                        remedy=remedy,
                    )

    def _must_store(self) -> None:
        """Raises MissingCapability where the job's `{out}` cannot be a file system of ours."""
        kind = environment_named(self.environment)
        name = CanFailStorage.__name__
        why: str | None = f"environment {self.environment!r} lacks it: {REMEDIES[name]}"
        if isinstance(kind, type) and issubclass(kind, CanFailStorage):
            asked = getattr(kind, "storage_available", None)
            why = asked() if asked is not None else None
        if why is not None:
            raise MissingCapability(f"{{out}} cannot be a file system of ours: {why}", capability=name, remedy=why)

    def _make_reference(self, job: Job, name: str) -> Reference:
        begun = time.monotonic()
        mode = launching.planned(job, environment=self.environment, wish=self.launch)
        known = references.learned_before(self.store, job) if mode.demanded else None
        first = Mode.from_json(known) if known else COLD
        run_dir = self._make_control(job, name, 0, mode=first, learning=not known and mode.warm)
        if mode.warm:
            mode = replace(first, demanded=True) if known else launching.learned(mode, run_dir)
        mode = self._make_second(job, name, mode)
        seconds = (time.monotonic() - begun) / references.CONTROLS
        reference = references.keep(self.store, name, job, seconds=seconds, mode=mode.to_json())
        if reference.deterministic or job.controls == references.CONTROLS:
            return reference
        count = references.CONTROLS
        if mode.warm and not known:
            # Is it the job that differs, or the launch?
            self._make_control(job, name, count, mode=COLD)
            if references.alike(self.store, name, 0, count):
                if mode.demanded:
                    raise CannotWarm(f"cannot launch warm: {launching.differed(reference)}")
                references.replace_control(self.store, name, 1, by=count)
                cold = Mode(reason=launching.differed(reference))
                return references.keep(self.store, name, job, seconds=seconds, mode=cold.to_json())
            count += 1
        # They differ: a few more tell how far such runs lie apart.
        for number in range(count, job.controls):
            self._make_control(job, name, number, mode=mode)
        return references.keep(
            self.store, name, job, seconds=seconds, mode=mode.to_json(), controls=max(count, job.controls)
        )

    def _make_second(self, job: Job, name: str, mode: Mode) -> Mode:
        """The control that shows whether a warm launch can be told from a cold one; the mode that came of it."""
        try:
            run_dir = self._make_control(job, name, 1, mode=mode)
        except ReferenceFailed as error:
            if not mode.warm or mode.demanded:
                raise
            said = str(error).partition(", before")[0]
            mode = Mode(reason=f"its first warm launch failed: {said}")
            self._make_control(job, name, 1, mode=mode)
            return mode
        return launching.seen(mode, run_dir) if mode.warm else mode

    def _make_control(self, job: Job, name: str, number: int, *, mode: Mode, learning: bool = False) -> Path:
        """One uninterrupted run; raises ReferenceFailed unless it comes to its end."""
        of = references.CONTROLS if number < references.CONTROLS else max(job.controls, number + 1)
        self.progress.phase(f"reference {number + 1} of {of}, {'warm' if mode.warm else 'cold'}")
        run_dir = self.store.new_control(name, number, job=job.to_json(), environment=self.environment)
        alone = replace(job, relaunches=0)
        deadline = job.timeout or CONTROL_DEADLINE
        status = self._execute(run_dir, alone, deadline=deadline, mode=mode, learning=learning)
        references.must_have_finished(run_dir, status, nodes=job.nodes.most)
        return run_dir

    def _execute(
        self,
        run_dir: Path,
        job: Job,
        *,
        deadline: float,
        mode: Mode,
        relaunch_mode: Mode | None = None,
        learning: bool = False,
        faults: Sequence[Fault] = (),
        reference: Reference | None = None,
        storage: Storing = "",
    ) -> str:
        """One run from its first launch to its end; whatever happens, its status is written down."""
        out = run_dir / "out"
        place = Place(
            run_dir=run_dir,
            out=out,
            cwd=job.directory,
            run_id=self.store.read(run_dir)["id"],
            gated=bool(faults),
            env={key: value.replace("{out}", str(out)) for key, value in job.env.items()},
            mode=mode,
            relaunch_mode=relaunch_mode,
            learning=learning,
            nodes=job.nodes,
            storage=storage,
        )
        status = "interrupted"
        try:
            with self.store.writing(), environment_named(self.environment)(place) as env:
                writer = EventWriter(run_dir / "events" / "harness.jsonl")
                try:
                    controller = Controller(
                        env=env,
                        job=job,
                        out=out,
                        faults=faults,
                        reference=reference,
                        writer=writer,
                        deadline=deadline,
                        progress=self.progress,
                    )
                    status = controller.run()
                    witness.testify(run_dir, job, writer)
                finally:
                    writer.close()
            # A rank whose last events did not fit cannot say so: better no verdict than a wrong one.
            self.store.check_space()
        finally:
            self.store.finish(run_dir, status)
        return status


def _deadline(job: Job, faults: Sequence[Fault], reference: Reference) -> float:
    """Generous: every launch may take four times an uninterrupted run, and freezes take the time they take."""
    frozen = sum(fault.action.heal_after or 0.0 for fault in faults)
    delayed = sum(getattr(fault.trigger, "delay", None) or 0.0 for fault in faults)
    return 60.0 + frozen + delayed + 4.0 * reference.seconds * (1 + job.relaunches + job.max_restarts)


def stored(run_dir: Path, store: Store) -> Run:
    """A run that was made earlier, with the reference beside it; raises StoreError for anything else."""
    told = store.read(run_dir)
    try:
        job = Job.from_json(told["job"])
    except (TypeError, UsageError) as error:
        raise StoreError(f"{run_dir}: its job cannot be read: {error}", path=str(run_dir)) from error
    reference = references.attached(run_dir, str(told["reference"]))
    return Run(run_dir.name, run_dir, job, store, reference, told["experiment"])


def analyze(run: Run) -> tuple[Verdict, ...]:
    """Judge a stored run again, by the checks that were applied to it; runs nothing."""
    return run.judge(*(registry.from_json(told) for told in run.store.read_verdicts(run.dir).checks))


def replay(run: Run, runner: Runner) -> Run:
    """Run the stored schedule of `run` again, with the same job, and apply the same checks."""
    told = run.store.read(run.dir)
    checks = [registry.from_json(each) for each in run.store.read_verdicts(run.dir).checks]
    again = runner.run(run.job, *(catalogue.from_json(fault) for fault in told["schedule"]))
    again.judge(*checks)
    return again
