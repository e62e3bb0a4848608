"""The pytest plugin: the fixtures `chaos` and `job`, the options `--chaos-*`, and results instead of tracebacks.

Every pytest run of its Python environment loads it, so it imports heavy modules only when a test uses a fixture.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import _pytest
import pluggy
import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter

from chaoskit.cli import options
from chaoskit.cli.pytest_session import RESULT, TARGETS, Chaos, ChaosSession
from chaoskit.cli.pytest_settings import Settings, job_given, settings_of
from chaoskit.cli.worker_interrupts import WorkerInterrupts
from chaoskit.errors import ChaoskitError, CheckFailed, Inconclusive, ReferenceFailed, UsageError

if TYPE_CHECKING:
    from chaoskit.engine.result import Result
    from chaoskit.job import Job

SESSION = pytest.StashKey[ChaosSession]()
CHAOS = pytest.StashKey[Chaos]()
SETTINGS = pytest.StashKey[Settings]()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_to_pytest(parser)


def pytest_configure(config: pytest.Config) -> None:
    try:
        config.stash[SETTINGS] = settings_of(config)
        _check_options(config)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    given = {name: config.getoption(f"chaos_{name}") for name in options.TARGETS}
    if any(given.values()):
        _check_targets(config, **given)
    config.stash[SESSION] = session = ChaosSession(config, config.stash[SETTINGS].acceptances)
    config.pluginmanager.register(session, "chaoskit-session")
    config.pluginmanager.register(WorkerInterrupts(), "chaoskit-interrupts")
    if night := config.getoption("chaos_night"):
        from chaoskit.cli.night_session import NightSession

        config.pluginmanager.register(NightSession(Path(night)), "chaoskit-night")


def _check_options(config: pytest.Config) -> None:
    """Raises UsageError for options that no job could be run with, before a test begins."""
    given = options.given_to(config)
    # A log file may be for the pattern of each job, and experiments are listed with an interval alone.
    for name, partner in (("log_file", "log_regex"), ("every", "during")):
        given[name] = given[name] if given[partner] else None
    options.check(given, flag="--chaos-")
    if fields := options.job_fields(given):
        from chaoskit.job import Job

        job = Job(command=["true"], **fields)
        if "nnodes" in fields and not config.option.collectonly:
            from chaoskit import environments

            environments.must_fit(options.environment_of(given["env"]), job.nodes)
    if given["env"]:
        from chaoskit import environments

        environments.environment(given["env"])
    if given["dir"] and os.path.lexists(given["dir"]) and not os.path.isdir(given["dir"]):
        raise UsageError(f"--chaos-dir: {given['dir']!r} is no directory: name another one")


def _check_targets(config: pytest.Config, **given: str | None) -> None:
    from chaoskit.report.machine.publishing import Targets

    if given["json"] == "-":
        raise pytest.UsageError("--chaos-json: pytest owns standard output, so '-' is not possible: name a file")
    try:
        config.stash[TARGETS] = Targets.of(**given, flag="--chaos-")
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Return the launch mode of the jobs, if any test launches one."""
    if not any("chaos" in getattr(item, "fixturenames", ()) for item in items):
        return None
    from chaoskit.engine import launch_mode

    wish = config.getoption("chaos_launch") or "auto"
    given = job_given(config, config.stash[SETTINGS])
    if given is None:
        return f"chaoskit: launching {launch_mode.WISHED[wish]}"
    try:
        environment = options.environment_of(config.getoption("chaos_env"))
        return f"chaoskit: {launch_mode.describe(given, environment=environment, wish=wish)}"
    except UsageError:
        return None  # each test reports this error


@pytest.fixture
def chaos(request: pytest.FixtureRequest) -> Generator[Chaos, None, None]:
    """Runs jobs under faults: `chaos.run(job, fault).verify(check, ...)`, and `chaos.reference(job)`."""
    session = request.config.stash[SESSION]
    progress = session.progress(request.node.name)
    request.node.stash[CHAOS] = made = session.chaos(request.node, progress)
    yield made
    progress.stop()


@pytest.fixture
def job(pytestconfig: pytest.Config) -> Job:
    """The job of `--chaos-job`, or of the file; a conftest.py may define its own fixture with this name."""
    given = job_given(pytestconfig, pytestconfig.stash[SETTINGS])
    if given is None:
        raise UsageError(
            "the fixture 'job' has no job: pass --chaos-job 'torchrun --nproc-per-node 2 train.py --out {out}', "
            "write it as 'command' into [tool.chaoskit] of pyproject.toml, or define a fixture named 'job' that "
            "returns a chaoskit.Job"
        )
    return given


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Make a test inconclusive if it used `chaos` and applied no check."""
    outcome = yield
    made = pyfuncitem.stash.get(CHAOS, None)
    if made is not None and not made.judged:
        raise Inconclusive(
            "the test applied no check, so it proves nothing: call run.verify(checks.completed(), ...)"
        )
    return outcome


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the result and its JUnit properties to the report; show the findings instead of chaoskit's own stack
    frames."""
    uses = "chaos" in getattr(item, "fixturenames", ())
    error = call.excinfo.value if call.excinfo is not None else None
    if not uses or (call.when != "call" and error is None) or isinstance(error, KeyboardInterrupt):
        return (yield)
    from chaoskit.engine import result
    from chaoskit.report.machine import junit
    from chaoskit.report.terminal import table

    made = item.stash.get(CHAOS, None)
    counted = result.with_rulings(_result(item, error), made.rulings if made is not None else ())
    found = replace(counted, seconds=round(call.duration, 3), nodeid=item.nodeid)
    hangs = item.config.stash[SESSION].hangs
    if hangs is not None:
        hangs.add(found)
    item.user_properties[:] = [pair for pair in item.user_properties if not pair[0].startswith(junit.PREFIX)]
    item.user_properties += junit.properties(found, base=item.config.invocation_params.dir)
    own = True
    if call.excinfo is not None and isinstance(error, ChaoskitError | CheckFailed):
        own = _explain(call.excinfo, error, found)
    report = yield
    if not own and report.failed:
        # No line of the user's led here: the frames would be those of pytest and of chaoskit.
        report.longrepr = Message(type(error).__name__, table.explanation(found), item.location)
    setattr(report, RESULT, json.dumps(found.to_json()))
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and isinstance(error, CheckFailed | Inconclusive | ReferenceFailed):
        # The codes and the sentence, without the name of the exception.
        crash.message = table.explanation(found)
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, _ = item.location
        report.longrepr = (path, (line or 0) + 1, report.longrepr[2])
    return report


def _result(item: pytest.Item, error: BaseException | None) -> Result:
    from chaoskit.engine import result

    made = item.stash.get(CHAOS, None)
    judged = made.judged if made is not None else []
    if error is None:
        # The test decides: a test that expects a fail passes if the verdict is fail.
        found = result.of_runs(item.name, judged)
        return replace(
            found, verdict="pass", codes=(), sentences=(), table=(), stacks={}, findings=(), weakness=False
        )
    if isinstance(error, pytest.skip.Exception):
        return result.Result(item.name, result.SKIPPED, sentences=(str(error.msg),))
    if isinstance(error, pytest.fail.Exception):
        return result.of_error(item.name, AssertionError(str(error.msg)), judged)
    return result.of_error(item.name, error, judged)


class Message(TerminalRepr):
    """What pytest shows of a failure that no line of the user's led to: the message, and where the test is."""

    def __init__(self, kind: str, message: str, location: tuple[str, int | None, str]) -> None:
        self.kind = kind
        self.reprcrash = ReprFileLocation(location[0], (location[1] or 0) + 1, message)

    def toterminal(self, tw: TerminalWriter) -> None:
        tw.line(f"E   {self.kind}: {self.reprcrash.message}", red=True)


def _explain(excinfo: pytest.ExceptionInfo[BaseException], error: BaseException, found: Result) -> bool:
    """Have pytest show the findings and the user's own frames; returns whether there are any."""
    from chaoskit.report.terminal import table

    error.args = (table.explanation(found),)
    error.__cause__, error.__suppress_context__ = None, True
    homes = [Path(__file__).parents[1], *(Path(str(each.__file__)).parent for each in (pytest, pluggy, _pytest))]
    theirs = excinfo.traceback.filter(lambda entry: not {*homes} & {*Path(entry.path).parents})
    if theirs:
        # pytest cuts the traceback at the test, and then walks the frames themselves again: they are linked anew.
        for entry, following in zip(theirs, [*theirs[1:], None], strict=True):
            entry._rawentry.tb_next = following._rawentry if following is not None else None
        excinfo.traceback = theirs
    return bool(theirs)
