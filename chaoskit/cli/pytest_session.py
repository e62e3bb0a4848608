"""`Chaos`, the fixture of one test, and `ChaosSession`, the state that all tests of a pytest process share."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import pytest

from chaoskit.cli import options
from chaoskit.cli.same_hangs import SameHangs
from chaoskit.engine.terminal_text import printable
from chaoskit.errors import MissingCapability, ReferenceFailed, StoreError

if TYPE_CHECKING:
    from chaoskit.analysis.reference.reference import Reference
    from chaoskit.cli.progress_board import PhaseFile
    from chaoskit.engine.progress import Live, PhaseLines, Progress
    from chaoskit.engine.result import Result
    from chaoskit.engine.ruling import Ruling
    from chaoskit.engine.run_store import Store
    from chaoskit.engine.runner import Rule, Run, Runner
    from chaoskit.engine.windows.audits import SessionAudits
    from chaoskit.environments import StorageKind
    from chaoskit.faults import Fault
    from chaoskit.job import Job
    from chaoskit.report.machine.publishing import Targets
    from chaoskit.studies.nights.archive import Writer
    from chaoskit.studies.nights.suite import Suite
    from chaoskit.studies.problems.acceptance import Acceptance
    from chaoskit.verdict import Verdict

T = TypeVar("T")

#: The attribute of a report that holds the result as JSON; pytest-xdist transfers it from the workers.
RESULT = "chaoskit_result"
#: The suite of the session, available after its end.
SUITE: pytest.StashKey[Suite] = pytest.StashKey()
#: The directory in which the experiments of a battery keep their phases (see `ProgressBoard`), and the key under which
#: a worker of pytest-xdist gets it.
PHASES: pytest.StashKey[str] = pytest.StashKey()
PHASES_OF_WORKER = "chaoskit_phases"
#: The requested output files.
TARGETS: pytest.StashKey[Targets] = pytest.StashKey()


class Chaos:
    """The fixture `chaos`: a `Runner` for one test that keeps the runs of the test."""

    def __init__(
        self,
        runner: Runner,
        *,
        failed: dict[str, ReferenceFailed],
        hangs: SameHangs | None = None,
        require: bool,
        rulings: list[Ruling] | None = None,
    ) -> None:
        self._runner = runner
        self._failed = failed
        self._hangs = hangs
        self._require = require
        self.runs: list[Run] = []
        #: What was accepted, at each `verify` of the test.
        self.rulings = rulings if rulings is not None else []

    @property
    def judged(self) -> list[Run]:
        """The runs that at least one check was applied to."""
        return [run for run in self.runs if run.verdicts]

    def run(self, job: Job, *faults: Fault, storage: StorageKind = "") -> Run:
        """Run the job, inject the faults, and return the run; its method `verify` applies checks.

        `storage` selects how the writes of the job are recorded (see `Runner.run`). Skips the test if the environment
        lacks a capability that a fault needs. Raises ReferenceFailed if the job gives no reference, UsageError for a
        job that cannot be run.
        """
        from chaoskit.engine.arguments import check_job

        check_job("chaos.run", job)
        why_not = self._hangs.why_not(job.text) if self._hangs is not None else None
        if why_not is not None:
            pytest.skip(why_not)
        run = self._guarded(job, lambda: self._runner.run(job, *faults, storage=storage))
        self.runs.append(run)
        return run

    def reference(self, job: Job) -> Reference:
        """Return the uninterrupted run of the job, measured twice and stored: its steps, saves and epochs."""
        from chaoskit.engine.arguments import check_job

        check_job("chaos.reference", job)
        return self._guarded(job, lambda: self._runner.reference(job))

    def _guarded(self, job: Job, make: Callable[[], T]) -> T:
        # A job without a reference has none for the next test either: fail at once, without a run.
        key = repr(job)
        if key in self._failed:
            known = self._failed[key]
            raise ReferenceFailed(str(known), code=known.code, run=known.run, advice=known.advice)
        try:
            return make()
        except ReferenceFailed as error:
            self._failed[key] = ReferenceFailed(str(error), code=error.code, run=error.run, advice=error.advice)
            raise
        except MissingCapability as error:
            if self._require:
                raise
            pytest.skip(str(error) if error.remedy in str(error) else f"{error}; {error.remedy}")


class ChaosSession:
    """The state that all tests of one pytest process share; registered as a pytest plugin."""

    def __init__(self, config: pytest.Config, acceptances: Sequence[Acceptance] = ()) -> None:
        self._config = config
        self._acceptances = () if config.getoption("chaos_strict") else tuple(acceptances)
        # pytest does not capture output during configuration, so this duplicate reaches the terminal during tests.
        self._fd = os.dup(2)
        self._stream: TextIO | None = None
        self._swept = False
        #: The name of the directory that workers share.
        self._shared = ""
        self._failed: dict[str, ReferenceFailed] = {}
        self._results: dict[str, Result] = {}
        #: None where every experiment is to be run.
        self.hangs = None if config.getoption("chaos_keep_going") else SameHangs(self._shared_file("hangs.jsonl"))
        #: The experiments that are run in a window and whole; None before the tests are collected.
        self._audits: SessionAudits | None = None
        self._begun = time.monotonic()
        self._writer: Writer | None = None
        #: Results that the suite does not have yet.
        self._unkept: list[Result] = []

    @property
    def is_worker(self) -> bool:
        """Whether this process is one of pytest-xdist's."""
        return hasattr(self._config, "workerinput")

    @property
    def root(self) -> Path:
        """The directory of the stored runs."""
        return Path(self._config.getoption("chaos_dir") or self._config.rootpath / ".chaoskit").absolute()

    def _shared_file(self, name: str) -> Path | None:
        """A file that the workers of this session share; None for a session without workers."""
        from chaoskit.environments.machine import scratch

        workers: dict[str, str] = getattr(self._config, "workerinput", {})
        return scratch.path(workers["testrunuid"]) / name if workers else None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Draw the experiments whose windows are audited; each worker draws the same."""
        names = [item.name for item in session.items if "chaos" in getattr(item, "fixturenames", ())]
        if not names:
            return
        from chaoskit.engine.windows.audits import SessionAudits, drawn

        seed = self._config.getoption("chaos_seed") or 0
        self._audits = SessionAudits(drawn(names, seed=seed), shared=self._shared_file("audits.jsonl"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Make a directory that the workers of pytest-xdist share. It is swept if this process is killed."""
        from chaoskit.environments.machine import scratch

        if not self._shared:
            self._shared = node.workerinput["testrunuid"]
            scratch.make(self._shared)

    def chaos(self, item: pytest.Item, progress: Progress) -> Chaos:
        """Create the fixture of one test."""
        from chaoskit.engine.run_store import Store
        from chaoskit.engine.runner import Runner
        from chaoskit.environments.machine.sweep import sweep

        store = Store(self.root)
        store.prepare()
        if not self._swept:
            self._swept = True
            sweep(self.root)

        def runner_of_its_own() -> Runner:
            return Runner(
                store,
                environment=options.environment_of(self._config.getoption("chaos_env")),
                experiment=item.name,
                progress=progress,
                launch=self._config.getoption("chaos_launch") or "auto",
                windows=options.windows_of(options.given_to(self._config)),
                audits=self._audits,
                **options.overrides(self._config),
            )

        rulings: list[Ruling] = []
        runner = runner_of_its_own()
        if self._acceptances:
            # The runs of a proof are not those of the test.
            runner.rule = self._rule(item, rulings, runner_of_its_own())
        return Chaos(
            runner,
            failed=self._failed,
            hangs=self.hangs,
            require=self._config.getoption("chaos_require"),
            rulings=rulings,
        )

    def _rule(self, item: pytest.Item, rulings: list[Ruling], runner: Runner) -> Rule:
        """What of the verdicts on the runs of a test counts, by the list of accepted losses; kept in `rulings`. Behind
        an accepted loss the rest is judged in a further run, in which the lost state is put back."""
        from chaoskit.studies.problems.acceptance import decide, may_hide, names_of, today
        from chaoskit.studies.putting_back import try_to_prove

        names = names_of(item.name, item.nodeid)

        def rule(run: Run, verdicts: Sequence[Verdict]) -> Ruling:
            ruling = decide(verdicts, self._acceptances, names=names, day=today())
            if may_hide(ruling.accepted):
                proof = try_to_prove(runner, run, ruling.accepted)
                ruling = decide(verdicts, self._acceptances, names=names, day=today(), proof=proof)
            rulings.append(ruling)
            return ruling

        return rule

    def progress(self, label: str) -> Live | PhaseLines | PhaseFile:
        """Show the progress of one test despite pytest's capturing. Workers share a terminal, so they write lines, but
        where a board shows what all of them do."""
        from chaoskit.cli.progress_board import PhaseFile
        from chaoskit.engine.progress import PhaseLines, progress_on

        handed = getattr(self._config, "workerinput", {}).get(PHASES_OF_WORKER)
        if (board := handed or self._config.stash.get(PHASES, None)) is not None:
            return PhaseFile(Path(board), label)
        if self._stream is None:
            self._stream = os.fdopen(self._fd, "w", closefd=False)
        if self.is_worker:
            return PhaseLines(self._stream, label)
        if self._stream.isatty() and self._config.get_terminal_writer().hasmarkup:
            self._stream.write("\n")  # pytest has not ended its own line yet
        return progress_on(self._stream, label)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, RESULT):
            from chaoskit.engine.result import Result

            self._results[report.nodeid] = Result.from_json(json.loads(getattr(report, RESULT)))
        # Of a worker that was killed there is one report, of no phase.
        if report.when not in ("setup", "call") and report.nodeid in self._results and not self.is_worker:
            self._archive(self._results[report.nodeid])

    def _archive(self, result: Result) -> None:
        """Add a result to the suite of this session, which begins with the first experiment."""
        from chaoskit.engine.run_store import Store
        from chaoskit.studies.nights.archive import Archive, typed

        self._unkept.append(result)
        if self._writer is None and result.trouble == "usage":
            return  # A session of usage errors alone is no night.
        try:
            if self._writer is None:
                self._writer = Archive(Store(self.root)).begin(typed(), since=self._begun)
            new, self._unkept = self._unkept, []
            for each in new:
                self._writer.add(each)
        except Exception as error:
            self._not_kept(error)

    def _not_kept(self, error: Exception) -> None:
        """Report that the suite could not be stored; the verdicts stay valid."""
        self._complain(f"the suite could not be stored ({type(error).__name__}: {error}); the verdicts stay valid")

    def _complain(self, message: str) -> None:
        os.write(self._fd, f"chaoskit: {printable(message)}\n".encode(errors="backslashreplace"))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self.is_worker or not self._results:
            return
        from chaoskit.engine.run_store import Store

        store, suite = Store(self.root), None
        try:
            if self._writer is not None:
                interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
                suite = self._config.stash[SUITE] = self._writer.end("interrupted" if interrupted else "finished")
        except Exception as error:
            self._not_kept(error)
        if targets := self._config.stash.get(TARGETS, None):
            from chaoskit.report.machine import publishing
            from chaoskit.studies.nights.archive import typed, unkept

            suite = suite or unkept(typed(), list(self._results.values()))
            publishing.publish(suite, targets, store=store, complain=self._complain)
        with suppress(StoreError, OSError):
            self._make_room(store)

    def _make_room(self, store: Store) -> None:
        """Remove old runs. Those of this session stay, so that its pages can be made."""
        from chaoskit.engine import retention
        from chaoskit.files.disk_use import shown

        limit = options.limit_of(self._config.getoption("chaos_store_limit"))
        newest = self._config.getoption("chaos_keep")
        spare = {Path(run).name for result in self._results.values() for run in result.runs}
        cleaned = retention.keep(store, retention.KEPT if newest is None else newest, spare=spare, limit=limit)
        if limit is not None and (cleaned.runs or cleaned.references):
            self._complain(
                f"removed {cleaned} to keep the store within its limit; {shown(cleaned.freed)} are free again"
            )
        for why in cleaned.left[:3]:
            self._complain(f"an old run could not be removed: {why}")
        if (warning := retention.nearly_full(store, limit)) is not None:
            self._complain(warning)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """End the session as `chaoskit run` does: with the problems. Every experiment is shown first with -v; why one
        did not pass is above, among the failures."""
        if not self._results:
            return
        from chaoskit.cli.output import list_problems
        from chaoskit.report.terminal import table

        found, verbose = list(self._results.values()), self._config.get_verbosity() > 0
        writer = self._config.get_terminal_writer()
        console = table.console_in_memory(width=writer.fullwidth, colours=writer.hasmarkup)
        look = ""
        if SUITE in self._config.stash:
            targets = self._config.stash.get(TARGETS, None)
            look = table.look_at("--last-suite", self.root, report=targets.report if targets is not None else None)
        if verbose:
            table.show_rows(found, console)
            console.print()
        list_problems(found, console, look=look, verbose=verbose)
        terminalreporter.section("chaoskit")
        for line in [*table.printed(console).rstrip().split("\n"), *self._useless(found)]:
            terminalreporter.write_line(line)

    def _useless(self, found: list[Result]) -> list[str]:
        """The acceptances for a test of this session that did not show their code. Of the others nothing is known: they
        may be for the battery of `chaoskit run`, which tells itself."""
        from chaoskit.studies.problems.acceptance import unmatched, useless

        own = [one for one in self._acceptances if "::" in one.experiment]
        return [f"chaoskit: {useless(one, len(found))}" for one in unmatched(own, found)]

    def pytest_unconfigure(self) -> None:
        if self._shared:
            from chaoskit.environments.machine import scratch

            scratch.remove(self._shared)
        if self._stream is not None:
            self._stream.close()
        os.close(self._fd)
