"""Counts of soaks, kept over nights and machines: one JSON object a line, in a file of the repository.

A soak that found nothing in 50 trials proves little; a thousand trials on several machines, each with its load, prove
more. A line names no host and no user.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from table import Figure

from chaoskit import __version__

ROOT = Path(__file__).parents[1]
#: Of processes around a launch, and of harnesses.
MURDERED = "murders that left something"
FILE = ROOT / "docs" / "reference" / "soak.jsonl"


@dataclass
class Count:
    """`wrong` of `times` trials in an environment: alarms of a job that is right, or kills that left something."""

    what: str
    environment: str
    times: int = 0
    wrong: int = 0


def add_keep(command: argparse.ArgumentParser) -> None:
    """Add the option that names the file."""
    command.add_argument("--keep", type=Path, metavar="FILE", help="append the counts to this file")


@contextmanager
def kept(file: Path | None, *counts: Count) -> Iterator[None]:
    """Append the counts as they are at the end, or when the soak is interrupted; without a file nothing is kept."""
    begun, load = time.monotonic(), os.getloadavg()[0]
    try:
        yield
    finally:
        about = {**_about(), "load": [load, os.getloadavg()[0]], "seconds": round(time.monotonic() - begun)}
        told = [{**asdict(count), **about} for count in counts if count.times]
        if file is not None and told:
            with file.open("a") as lines:
                lines.write("".join(json.dumps(one) + "\n" for one in told))


def totals(file: Path | None) -> list[Figure]:
    """What all soaks in the file came to, by kind and environment."""
    found: dict[tuple[str, str], list[int]] = {}
    for line in file.read_text().splitlines() if file is not None and file.exists() else ():
        told = json.loads(line)
        total = found.setdefault((told["what"], told["environment"]), [0, 0])
        total[0] += told["times"]
        total[1] += told["wrong"]
    return [
        Figure(f"so far: {what}, {environment}", wrong, f"of {times}", "<= 0")
        for (what, environment), (times, wrong) in sorted(found.items())
    ]


def _about() -> dict[str, Any]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "chaoskit": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "processor": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
    }


def _commit() -> str:
    """The commit, with a '+' for changes that are in none."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
