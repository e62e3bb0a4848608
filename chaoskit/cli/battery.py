"""The battery: runs the packaged experiments with pytest in this process, isolated from the user's pytest setup.

It ignores pytest.ini, conftest.py, PYTEST_ADDOPTS and installed plugins: the verdict on a job must not depend on the
directory that chaoskit was started in.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO

import pytest

from chaoskit.cli import selection
from chaoskit.cli.killed_worker import KilledWorker, kernel_kills
from chaoskit.cli.output import say
from chaoskit.cli.progress_board import Countdown, ProgressBoard
from chaoskit.cli.pytest_session import PHASES, PHASES_OF_WORKER, RESULT, SUITE
from chaoskit.engine.result import SKIPPED, Result
from chaoskit.engine.shortage import shortage
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.studies.nights.suite import Suite

#: Where the experiments are: inside the package in a wheel, beside it in a checkout.
CANDIDATES = (Path(__file__).parents[1] / "experiments", Path(__file__).parents[2] / "experiments")


def directory() -> Path:
    """Return the directory of the experiments; raises ChaoskitError if the installation lacks them."""
    for candidate in CANDIDATES:
        if (candidate / "battery.ini").is_file():
            return candidate
    raise ChaoskitError(
        f"the experiments are missing from {CANDIDATES[0]}, so this installation is incomplete: reinstall chaoskit"
    )


class WorkerNode(Protocol):
    """What pytest-xdist gives of a worker: `workerinput` is handed to it."""

    workerinput: dict[str, object]


@dataclass
class ResultCollector:
    """A pytest plugin that collects the results, and prints one line when an experiment ends: how it ended, and how far
    the battery is. On a terminal a `board` shows in between what runs."""

    stream: TextIO | None = None
    workers: int = 1
    board: ProgressBoard | None = None
    countdown: Countdown | None = None
    titles: dict[str, str] = field(default_factory=dict)
    selected: list[str] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    outages: list[str] = field(default_factory=list)
    shortages: list[str] = field(default_factory=list)
    interrupted: bool = False
    suite: Suite | None = None
    _kills: int = field(default_factory=kernel_kills)

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        if self.board is not None:
            config.stash[PHASES] = str(self.board.directory)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerNode) -> None:
        if self.board is not None:
            node.workerinput[PHASES_OF_WORKER] = str(self.board.directory)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self.titles[item.name] = _title(item)
        self._select([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        self._select(ids)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.troubles.append(report.longreprtext)

    def pytest_internalerror(self, excrepr: object, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if (lacking := shortage(excinfo.value)) is not None:
            self.shortages.append(lacking)
        else:
            self.troubles.append(str(excrepr))

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """A worker has died; pytest-xdist goes on with another one."""
        found = KilledWorker.of(getattr(report, "node", None), kills_before=self._kills).result(crashitem)
        setattr(report, RESULT, json.dumps(found.to_json()))
        self._say(f"  {found.name}: {found.word}: {found.sentences[0]}")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.interrupted = self.interrupted or excinfo.type is KeyboardInterrupt

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, RESULT):
            self.results[report.nodeid] = Result.from_json(json.loads(getattr(report, RESULT)))
        result = self.results.get(report.nodeid)
        if report.failed and result is not None and result.trouble == "environment":
            self.outages.append(report.longreprtext)
        elif report.failed and result is not None and result.trouble == "exhausted":
            self.shortages.append(result.sentences[0])
        elif report.failed and (result is None or result.trouble == "internal"):
            self.troubles.append(report.longreprtext)
        if report.when == "teardown" and result is not None:
            if self.countdown is not None:
                self.countdown.ended(result.seconds or 0.0)
            self._say(f"  {result.name}: {result.word} in {result.seconds or 0.0:.1f} s ({self.countdown})")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        self.suite = config.stash.get(SUITE, None)

    def all_results(self) -> list[Result]:
        """Return all results in the order of the battery. A selected experiment that did not run is inconclusive after
        an interrupt, and skipped after -x."""
        nodeids = dict.fromkeys([*self.selected, *self.results])
        verdict, why = ("inconclusive", "interrupted") if self.interrupted else (SKIPPED, "stopped before (-x)")
        return [
            self.results.get(nodeid)
            or Result(nodeid.rpartition("::")[2], verdict, sentences=(f"not run: {why}",), nodeid=nodeid)
            for nodeid in nodeids
        ]

    @property
    def has_failed(self) -> bool:
        """Whether something else than the job went wrong."""
        return bool(self.troubles or self.outages or self.shortages)

    def _select(self, nodeids: Sequence[str]) -> None:
        if nodeids and not self.selected:
            self.selected = list(nodeids)
            self._say(f"{len(nodeids)} experiment{'' if len(nodeids) == 1 else 's'} to run")
            self.countdown = Countdown(len(nodeids), workers=self.workers)
            if self.board is not None:
                self.board.start(self.countdown)

    def _say(self, text: str) -> None:
        if self.board is not None:
            self.board.say(text)
        elif self.stream is not None:
            say(text, file=self.stream)


@dataclass(frozen=True)
class Selection:
    """The experiments that run: those of the areas `only`, or the `quick` ones, or all of the battery; of these, those
    that pytest's -k would select with `expression`. `also` names experiments that run although they run only on
    request. Raises UsageError for areas and quick at once."""

    expression: str | None = None
    only: str | None = None
    quick: bool = False
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.only and self.quick:
            raise UsageError("--quick and --only exclude each other: give one of them")

    @property
    def everything(self) -> bool:
        """Whether it is the whole battery."""
        return not (self.expression or self.only or self.quick)

    def __str__(self) -> str:
        parts = ["--quick"] if self.quick else [f"--only {self.only}"] if self.only else []
        return " ".join([*parts, *([f"-k {self.expression!r}"] if self.expression is not None else [])])

    def arguments(self, home: Path) -> list[str]:
        """Return pytest's arguments for the experiments below `home`."""
        words = [] if self.expression is None else ["-k", self.expression]
        words += ["-o", f"also={' '.join(self.also)}"] if self.also else []
        return [*words, *selection.arguments(home, only=self.only, quick=self.quick)]


ALL = Selection()


def titles(
    chosen: Selection = ALL,
    *,
    nodes: str | None = None,
    every: str | None = None,
    env: str | None = None,
    notices: str | None = None,
) -> dict[str, str]:
    """Map the name of each experiment that is chosen to the first sentence of its docstring. Experiments that need
    several nodes are included only if `nodes` provides them, a schedule only if `every` does, what only a cluster does
    only if `env` is one, and notices of preemption only as `notices` names them."""
    collector = ResultCollector()
    options = {"nodes": nodes, "every": every, "env": env, "notices": notices}
    given = [f"--chaos-{name}={value}" for name, value in options.items() if value]
    _pytest(["--collect-only", *given], chosen, collector)
    return collector.titles


def run(
    options: Sequence[str],
    chosen: Selection = ALL,
    *,
    junitxml: str | None = None,
    workers: str | None = None,
    fail_fast: bool = False,
    stream: TextIO | None = None,
) -> ResultCollector:
    """Run the experiments that are chosen; `options` are those of the pytest plugin.

    Raises UsageError if the selection is invalid or empty, and for workers without pytest-xdist.
    """
    args = list(options)
    if junitxml is not None:
        args.append(f"--junitxml={os.path.abspath(junitxml)}")
    if fail_fast:
        args.append("-x")
    if workers is not None:
        if importlib.util.find_spec("xdist") is None:
            raise UsageError(
                "-n needs pytest-xdist, which is not installed: run 'pip install pytest-xdist', or omit -n"
            )
        args += ["-p", "xdist.plugin", "-n", workers, *_distribution(options)]
    board = ProgressBoard(stream) if stream is not None and stream.isatty() else None
    collector = ResultCollector(stream, int(workers) if workers and workers.isdecimal() else 1, board)
    try:
        _pytest(args, chosen, collector)
    finally:
        if board is not None:
            board.stop()
    return collector


def _distribution(options: Sequence[str]) -> list[str]:
    """How workers get experiments: those that are free take from the others; in a night one by one, in the order of its
    plan."""
    planned = any(option.startswith("--chaos-night") for option in options)
    return ["--dist", "load", "--maxschedchunk", "1"] if planned else ["--dist", "worksteal"]


def _pytest(args: Sequence[str], chosen: Selection, collector: ResultCollector) -> None:
    home = directory()
    command = ["-c", str(home / "battery.ini"), "--rootdir", str(home), "--confcutdir", str(home)]
    command += ["-p", "no:cacheprovider", "-p", "chaoskit.cli.pytest_plugin", *args]
    command += chosen.arguments(home)
    output, errors = io.StringIO(), io.StringIO()
    with _private_environment(), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            code = pytest.main(command, plugins=[collector])
        except KeyboardInterrupt:
            collector.interrupted = True
            return
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and not collector.interrupted:
        raise UsageError(
            f"{chosen} selects no experiment: 'chaoskit run --list' lists their names "
            "(add --nodes 2 or --nodes 1:2 for those that need several nodes)"
        )
    if code == pytest.ExitCode.USAGE_ERROR:
        lines = [line.removeprefix("ERROR: ") for line in errors.getvalue().splitlines() if line.strip()]
        raise UsageError(" ".join(lines) or "pytest rejected its arguments")
    if code == pytest.ExitCode.INTERNAL_ERROR and not (collector.troubles or collector.shortages):
        collector.troubles.append(output.getvalue() + errors.getvalue())


@contextlib.contextmanager
def _private_environment() -> Iterator[None]:
    """Remove the user's PYTEST_* variables from the environment, and restore them afterwards."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("PYTEST_")}
    for name in kept:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("PYTEST_")]:
            del os.environ[name]
        os.environ.update(kept)


def _title(item: pytest.Item) -> str:
    documentation = (getattr(getattr(item, "obj", None), "__doc__", None) or "").strip()
    return documentation.partition("\n")[0]
