"""Match files whose names differ only in a number, such as a step or a rank."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from chaoskit.capabilities import StoredCheckpoint


def pattern(name: str) -> str:
    """The name with its numbers taken out."""
    return re.sub(r"\d+", "#", name)


def alike(name: str, others: Iterable[str]) -> list[str]:
    """The other names that differ from `name` in numbers only, those with the fewest different numbers first."""
    own = re.findall(r"\d+", name)

    def distance(other: str) -> tuple[int, str]:
        return sum(a != b for a, b in zip(own, re.findall(r"\d+", other), strict=True)), other

    return sorted((other for other in others if other != name and pattern(other) == pattern(name)), key=distance)


def mark(one: StoredCheckpoint, every: Sequence[StoredCheckpoint]) -> str:
    """The part of its files' paths that tells a checkpoint from another: 'step-40', 'step-40.pt'.

    Raises LookupError if there is no such part.
    """
    found: Counter[str] = Counter()
    for other in [other for other in every if other != one][:1]:
        for name in one.files:
            for like in alike(name, other.files)[:1]:
                own, theirs = PurePosixPath(name).parts, PurePosixPath(like).parts
                found[next(a for a, b in zip(own, theirs, strict=True) if a != b)] += 1
    if not found:
        raise LookupError("the names of files do not tell one checkpoint from another")
    return found.most_common(1)[0][0]
