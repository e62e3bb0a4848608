"""The results as JSON, for CI: `docs/format.md` documents schema 1."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.report.results import Result, overall

SCHEMA = 1
#: What schema 1 promises of each experiment; what else is there may change.
KEYS = ("name", "verdict", "codes", "resumed_from", "last_valid", "steps_lost", "recovery_seconds", "run")


def document(results: Sequence[Result]) -> dict[str, Any]:
    """The whole document."""
    return {"schema": SCHEMA, "verdict": overall(results).value, "experiments": [_entry(r) for r in results]}


def _entry(result: Result) -> dict[str, Any]:
    told = result.to_json()
    entry = {key: told[key] for key in KEYS}
    entry["run"] = result.place
    return {
        **entry,
        "sentences": told["sentences"],
        "table": told["table"],
        "noticed_seconds": told["noticed_seconds"],
        "stopped_seconds": told["stopped_seconds"],
        "seconds": told["seconds"],
        "waited_seconds": told["waited_seconds"],
        "launched": told["launched"],
    }


def write(results: Sequence[Result], target: str) -> None:
    """Write the document to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(document(results), indent=2) + "\n", target)


def write_text(text: str, target: str) -> None:
    """Write to the file `target`, or to standard output for `-`; raises UsageError where that cannot be."""
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        raise UsageError(f"--json: cannot write {target!r} ({error.strerror}): name a file that can be") from error


def check_target(target: str) -> None:
    """Raises UsageError, before anything runs, for a file that could not be written afterwards."""
    path = Path(target)
    if target != "-" and (path.is_dir() or not path.absolute().parent.is_dir()):
        what = "is a directory" if path.is_dir() else f"is in {path.absolute().parent}, which does not exist"
        raise UsageError(f"--json: {target!r} {what}: name a file in a directory that exists, or '-'")
