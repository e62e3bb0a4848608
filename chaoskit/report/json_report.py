"""The results as JSON, for CI: `docs/format.md` documents schema 1."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.results import Result, overall
from chaoskit.suites.suite import Suite

SCHEMA = 1
#: What schema 1 promises of each experiment; what else is there may change.
KEYS = ("name", "verdict", "codes", "resumed_from", "last_valid", "steps_lost", "recovery_seconds", "run")
#: What is of use to nobody but pytest, or is long and in the stored run.
LEFT_OUT = ("trouble", "stacks")


def document(results: Sequence[Result], suite: Suite | None = None) -> dict[str, Any]:
    """The whole document; of a suite also what another machine needs to compare with it."""
    told = {"schema": SCHEMA, "verdict": overall(results).value, "experiments": [_entry(r) for r in results]}
    if suite is None:
        return told
    baselines = {name: one.to_json() for name, one in suite.baselines.items()}
    head = {**suite.head(), "status": suite.status, "seconds": suite.seconds}
    return {**told, "suite": head, "baselines": baselines}


def _entry(result: Result) -> dict[str, Any]:
    told = {**result.to_json(), "run": result.place}
    return {key: told[key] for key in [*KEYS, *(key for key in told if key not in (*KEYS, *LEFT_OUT))]}


def write(results: Sequence[Result], target: str, *, suite: Suite | None = None) -> None:
    """Write the document to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(document(results, suite), indent=2) + "\n", target)


def write_text(text: str, target: str, *, option: str = "--json") -> None:
    """Write to the file `target`, or to standard output for `-`; raises UsageError, naming the option that it was given
    by, where that cannot be."""
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        message = f"{option}: cannot write {target!r} ({error.strerror}): name a file that can be"
        raise UsageError(message) from error


def check_target(target: str, *, option: str = "--json") -> None:
    """Raises UsageError, before anything runs, for a file that could not be written afterwards."""
    path = Path(target).absolute()
    what = None
    if os.path.isdir(path):
        what = "is a directory"
    elif not os.path.isdir(path.parent):
        what = f"is in {path.parent}, which does not exist"
    elif not os.access(path if os.path.exists(path) else path.parent, os.W_OK):
        what = "cannot be written"
    if target != "-" and what is not None:
        raise UsageError(f"{option}: {target!r} {what}: name a file in a directory that exists, or '-'")
