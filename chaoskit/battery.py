"""The battery: the packaged experiments, run by pytest in this process, and nothing of the user's pytest beside.

Neither a pytest.ini, a conftest.py, PYTEST_ADDOPTS nor a plugin that happens to be installed has a say: the
verdict on a job must not depend on what lies around it.
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
from typing import TextIO

import pytest

from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.results import SKIPPED, Result
from chaoskit.session import RESULT, SUITE
from chaoskit.suites.suite import Suite

#: Beside each other in a checkout, one inside the other in a wheel.
PLACES = (Path(__file__).parent / "experiments", Path(__file__).parent.parent / "experiments")


def directory() -> Path:
    """Where the experiments are; raises ChaoskitError where they are missing from the installation."""
    for place in PLACES:
        if (place / "battery.ini").is_file():
            return place
    raise ChaoskitError(f"the experiments are missing from {PLACES[0]}: install chaoskit again")


@dataclass
class Collector:
    """A pytest plugin that keeps what happens and tells a person about each experiment as it ends."""

    stream: TextIO | None = None
    titles: dict[str, str] = field(default_factory=dict)
    selected: list[str] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    interrupted: bool = False
    suite: Suite | None = None

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

    def pytest_internalerror(self, excrepr: object) -> None:
        self.troubles.append(str(excrepr))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.interrupted = self.interrupted or excinfo.type is KeyboardInterrupt

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, RESULT):
            self.results[report.nodeid] = Result.from_json(json.loads(getattr(report, RESULT)))
        result = self.results.get(report.nodeid)
        if report.failed and (result is None or result.trouble == "internal"):
            self.troubles.append(report.longreprtext)
        if report.when == "teardown" and result is not None:
            self._say(f"  {result.name}: {result.verdict} in {result.seconds or 0.0:.1f} s")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        self.suite = config.stash.get(SUITE, None)

    def all_results(self) -> list[Result]:
        """In the order of the battery; what was selected and not run is inconclusive if that was an interrupt."""
        nodeids = dict.fromkeys([*self.selected, *self.results])
        verdict, why = ("inconclusive", "interrupted") if self.interrupted else (SKIPPED, "stopped before (-x)")
        return [
            self.results.get(nodeid)
            or Result(nodeid.rpartition("::")[2], verdict, sentences=(f"not run: {why}",), nodeid=nodeid)
            for nodeid in nodeids
        ]

    def _select(self, nodeids: Sequence[str]) -> None:
        if nodeids and not self.selected:
            self.selected = list(nodeids)
            self._say(f"{len(nodeids)} experiment{'' if len(nodeids) == 1 else 's'} to run")

    def _say(self, text: str) -> None:
        if self.stream is not None:
            print(text, file=self.stream, flush=True)


def titles(expression: str | None = None, *, nodes: str | None = None) -> dict[str, str]:
    """The name of each experiment that `expression` selects (all without one), and its first sentence. Those that need
    several nodes are there for a job that has them."""
    collector = Collector()
    _pytest(["--collect-only", *([f"--chaos-nodes={nodes}"] if nodes else [])], expression, collector)
    return collector.titles


def run(
    options: Sequence[str],
    *,
    expression: str | None = None,
    junitxml: str | None = None,
    workers: str | None = None,
    fail_fast: bool = False,
    stream: TextIO | None = None,
) -> Collector:
    """Run the experiments that `expression` selects; `options` are the plugin's.

    Raises UsageError for an expression that is none or selects nothing, and for workers without pytest-xdist.
    """
    args = list(options)
    if junitxml is not None:
        args.append(f"--junitxml={os.path.abspath(junitxml)}")
    if fail_fast:
        args.append("-x")
    if workers is not None:
        if importlib.util.find_spec("xdist") is None:
            raise UsageError("-n needs pytest-xdist: pip install pytest-xdist, or leave -n out")
        args += ["-p", "xdist.plugin", "-n", workers, "--dist", "worksteal"]
    collector = Collector(stream)
    _pytest(args, expression, collector)
    return collector


def _pytest(args: Sequence[str], expression: str | None, collector: Collector) -> None:
    home = directory()
    command = ["-c", str(home / "battery.ini"), "--rootdir", str(home), "--confcutdir", str(home)]
    command += ["-p", "no:cacheprovider", "-p", "chaoskit.plugin", *args]
    if expression is not None:
        command += ["-k", expression]
    said, complaints = io.StringIO(), io.StringIO()
    with _private_environment(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(complaints):
        try:
            code = pytest.main([*command, str(home)], plugins=[collector])
        except KeyboardInterrupt:
            collector.interrupted = True
            return
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and not collector.interrupted:
        raise UsageError(
            f"-k {expression!r} selects no experiment: 'chaoskit run --list' shows what there is "
            "(with --nodes 2 or --nodes 1:2 also what needs several nodes)"
        )
    if code == pytest.ExitCode.USAGE_ERROR:
        lines = [line.removeprefix("ERROR: ") for line in complaints.getvalue().splitlines() if line.strip()]
        raise UsageError(" ".join(lines) or "pytest refuses its arguments")
    if code == pytest.ExitCode.INTERNAL_ERROR and not collector.troubles:
        collector.troubles.append(said.getvalue() + complaints.getvalue())


@contextlib.contextmanager
def _private_environment() -> Iterator[None]:
    """Nothing that the user has set for pytest of their own; put back afterwards."""
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
