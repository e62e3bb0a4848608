"""`unlike`: compares the files that a late run left with those that the uninterrupted run had left at the same step."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from chaoskit.analysis.record.history import History

#: What differs in a name from run to run: random words, process ids, times.
_VARYING = re.compile(r"(?<![a-z])[0-9a-f]{6,}(?![a-z])|\d+", re.IGNORECASE)


def names_below(out: Path) -> set[str]:
    """Every file below a directory, by its path relative to that directory; links too."""
    found = ((directory, name) for directory, _, names in os.walk(out) for name in names)
    return {os.path.relpath(os.path.join(directory, name), out) for directory, name in found}


def listed(history: History) -> set[str]:
    """The files that lay in `{out}` at the end of a run."""
    return {str(name) for name, _ in history.files[-1]["files"]} if history.files else set()


def varying(runs: Iterable[History]) -> set[str]:
    """The kinds of names that uninterrupted runs do not have in common."""
    every = [listed(run) for run in runs]
    return {kind(name) for names in every for name in names if any(name not in other for other in every)}


def kind(name: str) -> str:
    """A name without what differs from run to run."""
    return _VARYING.sub("#", name)


def unlike(before: set[str], after: set[str], *, known: Iterable[str], varying: set[str]) -> Iterator[str]:
    """In which files the late run differs, in words that follow 'the run'. `known` are all files that the uninterrupted
    run ever had: the late run may have others in addition, such as a log of its own."""
    for name in sorted(before - after):
        if kind(name) not in varying:
            yield f"left no {name}"
    for name in sorted((after - before) & {*known}):
        if kind(name) not in varying:
            yield f"left {name}"
