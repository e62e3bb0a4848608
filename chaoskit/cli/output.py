"""The output of the commands: messages on standard error, the table of results, and the requested files."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from chaoskit.cli import options
from chaoskit.engine.terminal_text import printable
from chaoskit.errors import ExitCode, StoreError

if TYPE_CHECKING:
    from rich.console import Console

    from chaoskit.engine.result import Result
    from chaoskit.engine.run_store import Store
    from chaoskit.report.machine.publishing import Targets
    from chaoskit.studies.nights.suite import Suite
    from chaoskit.studies.problems.problem import Proof


def say(text: object = "", *, end: str = "\n", file: TextIO | None = None) -> None:
    """Print text to standard output, or to another stream. Everything that commands print themselves goes through here:
    what others wrote cannot control the terminal."""
    print(printable(str(text)), end=end, file=file, flush=file is not None)


def complain(message: str) -> None:
    """Print a message to standard error, prefixed with the program's name; further lines are indented, so that none
    looks like another message."""
    say(re.sub(r"\n(?=\S)", "\n  ", f"chaoskit: {message}"), file=sys.stderr)


def complain_unended(suite: Suite) -> None:
    """Say that a suite has no end, if it has none: what it lost must not look like a pass."""
    if suite.status == "running":
        complain(f"suite {suite.id} did not end, so results may be missing: chaoskit was killed, or runs")


def internal(root: Path, tracebacks: Sequence[str], what: str) -> None:
    """Report an internal error: one line on standard error, the traceback in a file (on standard error if the file
    cannot be written)."""
    complain(f"internal error in chaoskit ({what}); please report it with the traceback {_keep(root, tracebacks)}")


def outage(root: Path, tracebacks: Sequence[str], what: str) -> None:
    """Report that the environment failed: as `internal`, but chaoskit is not to blame."""
    complain(f"{what} (exit code {ExitCode.INTERNAL:d}; the traceback is {_keep(root, tracebacks)})")


def exhausted(what: str) -> None:
    """Report what has run out on this machine. No traceback is of use, and there may be no place for one."""
    complain(f"{what} (exit code {ExitCode.EXHAUSTED:d})")


def _keep(root: Path, tracebacks: Sequence[str]) -> str:
    """Write them to a file, or where they cannot be written to standard error; returns where they are."""
    from chaoskit.engine.run_store import Store

    text = "\n\n".join(tracebacks) + "\n"
    try:
        return f"in {Store(root).keep_crash(text)}"
    except (StoreError, OSError):
        say(text, file=sys.stderr)
        return "above"


def targets_of(args: argparse.Namespace) -> Targets:
    """Return the requested output files; raises UsageError for a path that cannot be written."""
    from chaoskit.report.machine.publishing import Targets

    given: dict[str, Any] = {name: getattr(args, name, None) for name in options.TARGETS}
    return Targets.of(**given)


def report(
    found: Sequence[Result],
    args: argparse.Namespace,
    targets: Targets,
    store: Store,
    *,
    seconds: float | None = None,
    suite: Suite | None = None,
) -> None:
    """Print the table of results and write the requested files. With `--json -` the table goes to standard error."""
    from chaoskit.report.terminal import table

    look = _look(found, targets, store, suite)
    table.show(found, _console(args), seconds=seconds, look=look)
    _publish(found, targets, store, suite)


def report_problems(
    found: Sequence[Result],
    args: argparse.Namespace,
    targets: Targets,
    store: Store,
    *,
    seconds: float,
    suite: Suite | None = None,
    proofs: Sequence[Proof] = (),
) -> None:
    """Print the problems that the results come to, and write the requested files. Every experiment is shown first if
    the command has `verbose`."""
    from chaoskit.report.terminal import table

    look, console = _look(found, targets, store, suite), _console(args)
    if args.verbose:
        table.show(found, console)
        console.print()
    list_problems(found, console, seconds=seconds, look=look, proofs=proofs, verbose=args.verbose)
    _publish(found, targets, store, suite, proofs)


def list_problems(
    found: Sequence[Result],
    console: Console,
    *,
    seconds: float | None = None,
    look: str = "",
    proofs: Sequence[Proof] = (),
    verbose: bool = False,
) -> None:
    """Print what `chaoskit run` and a pytest session end with: the problems that the results come to."""
    from chaoskit.report.terminal import problem_list
    from chaoskit.studies.problems.suite_problems import problems_of, undecided

    problems = problems_of(found, proofs=proofs)
    problem_list.show(problems, undecided(found), found, console, seconds=seconds, look=look, verbose=verbose)


def _look(found: Sequence[Result], targets: Targets, store: Store, suite: Suite | None) -> str:
    from chaoskit.report.terminal import table

    if suite:
        return table.look_at("--last-suite", store.root, report=targets.report)
    run = next((result.run_path for result in found if result.run_path), None)
    return table.look_at(shlex.quote(run), report=targets.report) if run else ""


def _console(args: argparse.Namespace) -> Console:
    from chaoskit.report.terminal import table

    return table.console_for(sys.stderr if args.json == "-" else sys.stdout)


def _publish(
    found: Sequence[Result], targets: Targets, store: Store, suite: Suite | None, proofs: Sequence[Proof] = ()
) -> None:
    from chaoskit.report.machine import publishing
    from chaoskit.studies.nights.archive import typed, unkept

    whole = replace(suite or unkept(typed(), found), proofs=tuple(proofs))
    publishing.publish(whole, targets, store=store, complain=complain)
