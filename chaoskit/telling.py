"""What commands tell: to a person, and in files for whoever else asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit import options
from chaoskit.errors import StoreError

if TYPE_CHECKING:
    from chaoskit.report.publishing import Targets
    from chaoskit.results import Result
    from chaoskit.store import Store
    from chaoskit.suites.suite import Suite


def complain(message: str) -> None:
    """One line on standard error, which says who speaks."""
    print(f"chaoskit: {message}", file=sys.stderr)


def internal(root: Path, tracebacks: Sequence[str], what: str) -> None:
    """One line for the person, the traceback in a file; on the screen only where no file can be written."""
    from chaoskit.store import Store

    text = "\n\n".join(tracebacks) + "\n"
    try:
        path = Store(root).keep_crash(text)
    except (StoreError, OSError):
        print(text, file=sys.stderr)
        complain(f"an error inside chaoskit ({what}); the traceback is above")
    else:
        complain(f"an error inside chaoskit ({what}); please report it with {path}")


def targets_of(args: argparse.Namespace) -> Targets:
    """What is to be written afterwards; raises UsageError for what could not be."""
    from chaoskit.report.publishing import Targets

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
    """The table for people; whatever else was asked for. Standard output is JSON's alone if JSON goes there."""
    from chaoskit.report import publishing, terminal
    from chaoskit.suites.archive import typed, unkept

    one = next((result.place for result in found if result.place), "RUN")
    told = ("--last-suite", store.root) if suite else (one,)
    look = terminal.look_at(*told, report=targets.report)
    console = terminal.console_for(sys.stderr if args.json == "-" else sys.stdout)
    terminal.show(found, console, seconds=seconds, look=look)
    suite = suite or unkept(typed(), found)
    publishing.publish(suite, targets, store=store, complain=complain)
