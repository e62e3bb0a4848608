"""The output of the commands: messages on standard error, the table of results, and the requested files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import options
from chaoskit.errors import StoreError

if TYPE_CHECKING:
    from chaoskit.engine.result import Result
    from chaoskit.engine.run_store import Store
    from chaoskit.report.machine.publishing import Targets
    from chaoskit.studies.nights.suite import Suite


def complain(message: str) -> None:
    """Print one line to standard error, prefixed with the program's name."""
    print(f"chaoskit: {message}", file=sys.stderr)


def internal(root: Path, tracebacks: Sequence[str], what: str) -> None:
    """Report an internal error: one line on standard error, the traceback in a file (on standard error if the file
    cannot be written)."""
    from chaoskit.engine.run_store import Store

    text = "\n\n".join(tracebacks) + "\n"
    try:
        path = Store(root).keep_crash(text)
    except (StoreError, OSError):
        print(text, file=sys.stderr)
        complain(f"internal error in chaoskit ({what}); please report it with the traceback above")
    else:
        complain(f"internal error in chaoskit ({what}); please report it with the traceback in {path}")


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
    from chaoskit.report.machine import publishing
    from chaoskit.report.terminal import table
    from chaoskit.studies.nights.archive import typed, unkept

    one = next((result.run_path for result in found if result.run_path), "RUN")
    shown = ("--last-suite", store.root) if suite else (one,)
    look = table.look_at(*shown, report=targets.report)
    console = table.console_for(sys.stderr if args.json == "-" else sys.stdout)
    table.show(found, console, seconds=seconds, look=look)
    suite = suite or unkept(typed(), found)
    publishing.publish(suite, targets, store=store, complain=complain)
