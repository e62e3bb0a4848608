"""The results as JSON; `docs/reference/format.md` documents schema 1."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chaoskit.engine.result import Result, overall
from chaoskit.errors import UsageError
from chaoskit.studies.nights.suite import Suite
from chaoskit.studies.problems.suite_problems import problems_of, undecided

SCHEMA = 1
#: The keys of an experiment that schema 1 guarantees; others may change.
KEYS = ("name", "verdict", "codes", "resumed_from", "last_valid", "steps_lost", "recovery_seconds", "run")
#: Omitted: `stacks` are long and in the stored run.
LEFT_OUT = ("stacks",)


def document(results: Sequence[Result], suite: Suite | None = None) -> dict[str, Any]:
    """Return the document; for a suite it includes the baselines and conditions that `chaoskit compare` needs."""
    plain = {
        "schema": SCHEMA,
        "verdict": overall(results).value,
        "problems": [problem.to_json() for problem in problems_of(results, proofs=suite.proofs if suite else ())],
        "undecided": [reason.to_json() for reason in undecided(results)],
        "experiments": [_entry(r) for r in results],
    }
    if suite is None:
        return plain
    baselines = {name: one.to_json() for name, one in suite.baselines.items()}
    head = {**suite.head(), "status": suite.status, "seconds": suite.seconds}
    proofs = [{"e": "proof", **asdict(proof)} for proof in suite.proofs]
    return {
        **plain, "suite": head, "baselines": baselines, "proofs": proofs,
        "conditions": {one.digest: one.to_json() for one in suite.conditions.values()},
        "rests_on": {name: one.digest for name, one in suite.conditions.items()},
        "checkpoint_costs": {name: asdict(one) for name, one in suite.checkpoint_costs.items()},
    }  # fmt: skip


def _entry(result: Result) -> dict[str, Any]:
    fields = {**result.to_json(), "run": result.run_path}
    return {key: fields[key] for key in [*KEYS, *(key for key in fields if key not in (*KEYS, *LEFT_OUT))]}


def write(results: Sequence[Result], target: str, *, suite: Suite | None = None) -> None:
    """Write the document to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(document(results, suite), indent=2) + "\n", target)


def write_text(text: str, target: str, *, option: str = "--json") -> None:
    """Write to the file `target`, or to standard output for `-`; raises UsageError, which names the command's `option`,
    if the file cannot be written."""
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        message = f"{option}: cannot write {target!r} ({error.strerror}): name a writable file"
        raise UsageError(message) from error


def takes_files(directory: Path) -> bool:
    """Whether a file can be made there: tried, because rights tell root nothing of a file system that refuses."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def check_target(target: str, *, option: str = "--json") -> None:
    """Check that a file can be written, before anything runs; raises UsageError if not."""
    path = Path(target).absolute()
    what = None
    if os.path.isdir(path):
        what = "is a directory"
    elif not os.path.isdir(path.parent):
        what = f"is in {path.parent}, which does not exist"
    elif not (os.access(path, os.W_OK) if os.path.exists(path) else takes_files(path.parent)):
        what = "is not writable"
    if target != "-" and what is not None:
        raise UsageError(f"{option}: {target!r} {what}: name a file in an existing directory, or '-'")
