"""`Session`: what one pytest process keeps for all tests that break a job, and `Chaos`, the fixture of each of them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import pytest

from chaoskit import options
from chaoskit.errors import MissingCapability, ReferenceFailed, StoreError

if TYPE_CHECKING:
    from chaoskit.environments.environment import Storing
    from chaoskit.faults import Fault
    from chaoskit.job import Job
    from chaoskit.progress import Lines, Live, Progress
    from chaoskit.reference import Reference
    from chaoskit.report.publishing import Targets
    from chaoskit.results import Result
    from chaoskit.runner import Run, Runner
    from chaoskit.suites.archive import Writer
    from chaoskit.suites.suite import Suite

T = TypeVar("T")

#: The attribute of a report that holds the result as JSON; pytest-xdist brings it from the workers.
RESULT = "chaoskit_result"
#: What the session came to, once it is over.
SUITE: pytest.StashKey[Suite] = pytest.StashKey()
#: Where else that is to be told, where anybody asked for it.
TARGETS: pytest.StashKey[Targets] = pytest.StashKey()


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
        if hasattr(report, RESULT):
            from chaoskit.results import Result

            self._results[report.nodeid] = Result.from_json(json.loads(getattr(report, RESULT)))
        if report.when == "teardown" and report.nodeid in self._results and not self.is_worker:
            self._archive(self._results[report.nodeid])

    def _archive(self, result: Result) -> None:
        """Add to the suite of this session, begun with its first experiment."""
        from chaoskit.store import Store
        from chaoskit.suites.archive import Archive, typed

        try:
            if self._writer is None:
                self._writer = Archive(Store(self.root)).begin(typed(), since=self._begun)
            self._writer.add(result)
        except Exception as error:
            self._not_kept(error)

    def _not_kept(self, error: Exception) -> None:
        """The verdicts stand, whatever becomes of the record of the suite."""
        self._complain(f"the suite is not kept ({type(error).__name__}: {error})")

    def _complain(self, message: str) -> None:
        os.write(self._fd, f"chaoskit: {message}\n".encode(errors="backslashreplace"))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self.is_worker or not self._results:
            return
        from chaoskit.store import Store

        store, suite = Store(self.root), None
        try:
            if self._writer is not None:
                interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
                suite = self._config.stash[SUITE] = self._writer.end("interrupted" if interrupted else "finished")
        except Exception as error:
            self._not_kept(error)
        if targets := self._config.stash.get(TARGETS, None):
            from chaoskit.report import publishing
            from chaoskit.suites.archive import typed, unkept

            suite = suite or unkept(typed(), list(self._results.values()))
            publishing.publish(suite, targets, store=store, complain=self._complain)
        with suppress(StoreError, OSError):
            # Those of this session, for whoever asks for its pages.
            store.keep(spare={Path(run).name for result in self._results.values() for run in result.runs})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._results:
            from chaoskit.report import terminal

            found = list(self._results.values())
            terminalreporter.section("chaoskit")
            terminalreporter.write_line(terminal.as_text(found).rstrip())
            terminalreporter.write_line(terminal.total(found))
            if SUITE in self._config.stash and terminal.unsettled(found):
                targets = self._config.stash.get(TARGETS, None)
                report = targets.report if targets is not None else None
                terminalreporter.write_line(terminal.look_at("--last-suite", self.root, report=report))

    def pytest_unconfigure(self) -> None:
        if self._stream is not None:
            self._stream.close()
        os.close(self._fd)
