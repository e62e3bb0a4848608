"""The pytest plugin: the fixtures `chaos` and `job`, the options `--chaos-*`, and results instead of tracebacks.

It is loaded into every pytest run of its environment, so it imports nothing of weight until a test asks for it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import pytest

from chaoskit import options
from chaoskit.errors import (
    ChaoskitError,
    CheckFailed,
    Inconclusive,
    MissingCapability,
    ReferenceFailed,
    StoreError,
    UsageError,
)

if TYPE_CHECKING:
    from chaoskit.environments.environment import Storing
    from chaoskit.faults import Fault
    from chaoskit.job import Job
    from chaoskit.progress import Lines, Live, Progress
    from chaoskit.reference import Reference
    from chaoskit.results import Result
    from chaoskit.runner import Run, Runner
    from chaoskit.suites.archive import Writer
    from chaoskit.suites.suite import Suite

T = TypeVar("T")

#: The property of a report (and of a JUnit test case) that holds the result as JSON.
PROPERTY = "chaoskit"


class Chaos:
    """The fixture `chaos`: a `Runner` for one test, which remembers the runs that the test made."""

    def __init__(self, runner: Runner, *, failed: dict[str, ReferenceFailed], require: bool) -> None:
        self._runner = runner
        self._failed = failed
        self._require = require
        self.runs: list[Run] = []

    @property
    def judged(self) -> list[Run]:
        """The runs that at least one check was applied to."""
        return [run for run in self.runs if run.verdicts]

    def run(self, job: Job, *faults: Fault, storage: Storing = "") -> Run:
        """Run the job, break it, and return what happened; `verify` of what is returned judges it.

        `storage` is for what looks at how the job writes (see `Runner.run`). Skips the test where the environment lacks
        what a fault needs. Raises ReferenceFailed when the job gives no
        reference, UsageError for what cannot be run.
        """
        run = self._guarded(job, lambda: self._runner.run(job, *faults, storage=storage))
        self.runs.append(run)
        return run

    def reference(self, job: Job) -> Reference:
        """The uninterrupted run of the job, measured twice and kept: its steps, its saves, its epochs."""
        return self._guarded(job, lambda: self._runner.reference(job))

    def _guarded(self, job: Job, make: Callable[[], T]) -> T:
        # A job that gives no reference gives none to the next test either: say so at once, run nothing.
        key = json.dumps(job.to_json(), sort_keys=True)
        if key in self._failed:
            known = self._failed[key]
            raise ReferenceFailed(str(known), code=known.code, run=known.run)
        try:
            return make()
        except ReferenceFailed as error:
            self._failed[key] = ReferenceFailed(str(error), code=error.code, run=error.run)
            raise
        except MissingCapability as error:
            if self._require:
                raise
            pytest.skip(str(error) if error.remedy in str(error) else f"{error}; {error.remedy}")


class Session:
    """What one pytest process keeps for all tests that use `chaos`; registered as a plugin of its own."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # Capturing is suspended while pytest is configured: what is written here is seen while tests run.
        self._fd = os.dup(2)
        self._stream: TextIO | None = None
        self._swept = False
        self._failed: dict[str, ReferenceFailed] = {}
        self._results: dict[str, Result] = {}
        self._begun = time.monotonic()
        self._writer: Writer | None = None

    @property
    def is_worker(self) -> bool:
        """Whether this process is one of pytest-xdist's."""
        return hasattr(self._config, "workerinput")

    @property
    def root(self) -> Path:
        """Where runs are kept."""
        return Path(self._config.getoption("chaos_dir") or self._config.rootpath / ".chaoskit").absolute()

    def chaos(self, item: pytest.Item, progress: Progress) -> Chaos:
        """A `Chaos` for one test."""
        from chaoskit.environments.sweep import sweep
        from chaoskit.runner import Runner
        from chaoskit.store import Store

        store = Store(self.root)
        store.prepare()
        if not self._swept:
            self._swept = True
            sweep(self.root)
        runner = Runner(
            store,
            environment=self._config.getoption("chaos_env") or "local",
            experiment=item.name,
            progress=progress,
            launch=self._config.getoption("chaos_launch") or "auto",
            **options.overrides(self._config),
        )
        return Chaos(runner, failed=self._failed, require=self._config.getoption("chaos_require"))

    def progress(self, label: str) -> Live | Lines:
        """Progress of one test, past pytest's capturing; workers share a terminal, so they write lines."""
        from chaoskit.progress import Lines, progress_on

        if self._stream is None:
            self._stream = os.fdopen(self._fd, "w", closefd=False)
        if self.is_worker:
            return Lines(self._stream, label)
        if self._stream.isatty() and self._config.get_terminal_writer().hasmarkup:
            self._stream.write("\n")  # pytest is in the middle of a line of its own
        return progress_on(self._stream, label)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY:
                from chaoskit.results import Result

                self._results[report.nodeid] = Result.from_json(json.loads(str(value)))
        if report.when == "teardown" and report.nodeid in self._results and not self.is_worker:
            self._archive(self._results[report.nodeid])

    def _archive(self, result: Result) -> None:
        """Add to the suite of this session, begun with its first experiment."""
        from chaoskit.store import Store
        from chaoskit.suites.archive import Archive

        try:
            if self._writer is None:
                command = [Path(sys.argv[0]).name.replace("__main__.py", "chaoskit"), *sys.argv[1:]]
                self._writer = Archive(Store(self.root)).begin(command, since=self._begun)
            self._writer.add(result)
        except Exception as error:
            self._not_kept(error)

    def _not_kept(self, error: Exception) -> None:
        """The verdicts stand, whatever becomes of the record of the suite."""
        os.write(self._fd, f"chaoskit: the suite is not kept ({type(error).__name__}: {error})\n".encode())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self.is_worker or not self._results:
            return
        from chaoskit.report import json_report
        from chaoskit.store import Store

        suite = None
        try:
            if self._writer is not None:
                interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
                suite = self._config.stash[SUITE] = self._writer.end("interrupted" if interrupted else "finished")
        except Exception as error:
            self._not_kept(error)
        target = self._config.getoption("chaos_json")
        if target:
            json_report.write(list(self._results.values()), target, suite=suite)
        with suppress(StoreError, OSError):
            Store(self.root).keep()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._results:
            from chaoskit.report import terminal

            table = terminal.as_text(list(self._results.values()))
            terminalreporter.section("chaoskit")
            terminalreporter.write_line(table.rstrip())
            terminalreporter.write_line(terminal.total(list(self._results.values())))

    def pytest_unconfigure(self) -> None:
        if self._stream is not None:
            self._stream.close()
        os.close(self._fd)


SESSION = pytest.StashKey[Session]()
#: What the session came to, once it is over.
SUITE: pytest.StashKey[Suite] = pytest.StashKey()
CHAOS = pytest.StashKey[Chaos]()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_to_pytest(parser)


def pytest_configure(config: pytest.Config) -> None:
    target = config.getoption("chaos_json")
    if target == "-":
        raise pytest.UsageError("--chaos-json: name a file ('-' is for 'chaoskit run')")
    if target:
        from chaoskit.report import json_report

        try:
            json_report.check_target(target)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
    config.stash[SESSION] = session = Session(config)
    config.pluginmanager.register(session, "chaoskit-session")


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """How jobs will be launched, where any test launches one."""
    if not any("chaos" in getattr(item, "fixturenames", ()) for item in items):
        return None
    from chaoskit import launching

    wish = config.getoption("chaos_launch") or "auto"
    given = options.job_given(config)
    if given is None:
        return f"chaoskit: launching {launching.WISHED[wish]}"
    try:
        environment = config.getoption("chaos_env") or "local"
        return f"chaoskit: {launching.describe(given, environment=environment, wish=wish)}"
    except UsageError:
        return None  # each test will say so


@pytest.fixture
def chaos(request: pytest.FixtureRequest) -> Generator[Chaos, None, None]:
    """Runs jobs and breaks them: `chaos.run(job, fault).verify(check, ...)`, and `chaos.reference(job)`."""
    session = request.config.stash[SESSION]
    progress = session.progress(request.node.name)
    request.node.stash[CHAOS] = made = session.chaos(request.node, progress)
    yield made
    progress.stop()


@pytest.fixture
def job(pytestconfig: pytest.Config) -> Job:
    """The job of `--chaos-job`; a conftest.py may define a fixture of that name instead."""
    given = options.job_given(pytestconfig)
    if given is None:
        raise UsageError(
            "no job to test: give --chaos-job 'torchrun --nproc-per-node 2 train.py --out {out}', "
            "or define a fixture named 'job' that returns a chaoskit.Job"
        )
    return given


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A test that broke a job and claimed nothing has proved nothing."""
    outcome = yield
    made = pyfuncitem.stash.get(CHAOS, None)
    if made is not None and not made.judged:
        raise Inconclusive("no check was applied, so nothing was proved: call run.verify(checks.completed(), ...)")
    return outcome


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the result to the report; show what was found in place of the way through chaoskit's own code."""
    uses = "chaos" in getattr(item, "fixturenames", ())
    error = call.excinfo.value if call.excinfo is not None else None
    if uses and (call.when == "call" or error is not None) and not isinstance(error, KeyboardInterrupt):
        found = replace(_result(item, error), seconds=round(call.duration, 3), nodeid=item.nodeid)
        item.user_properties[:] = [pair for pair in item.user_properties if pair[0] != PROPERTY]
        item.user_properties.append((PROPERTY, json.dumps(found.to_json())))
        if call.excinfo is not None and isinstance(error, ChaoskitError | CheckFailed):
            _explain(call.excinfo, error, found)
    report = yield
    if uses and report.skipped and isinstance(report.longrepr, tuple):
        path, line, _ = item.location
        report.longrepr = (path, (line or 0) + 1, report.longrepr[2])
    return report


def _result(item: pytest.Item, error: BaseException | None) -> Result:
    from chaoskit import results

    made = item.stash.get(CHAOS, None)
    judged = made.judged if made is not None else []
    if error is None:
        # The test decides: one that expects a verdict other than pass has passed when it got it.
        found = results.of_runs(item.name, judged)
        return replace(found, verdict="pass", codes=(), sentences=(), table=(), stacks={})
    if isinstance(error, pytest.skip.Exception):
        return results.Result(item.name, results.SKIPPED, sentences=(str(error.msg),))
    if isinstance(error, pytest.fail.Exception):
        return results.of_error(item.name, AssertionError(str(error.msg)), judged)
    return results.of_error(item.name, error, judged)


def _explain(excinfo: pytest.ExceptionInfo[BaseException], error: BaseException, found: Result) -> None:
    from chaoskit.report import terminal

    error.args = (terminal.explanation(found),)
    error.__cause__, error.__suppress_context__ = None, True
    home = Path(__file__).parent
    theirs = excinfo.traceback.filter(lambda entry: home not in Path(entry.path).parents)
    if theirs:
        excinfo.traceback = theirs
