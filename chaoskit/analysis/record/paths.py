"""What the paths of checkpoints tell: their names often hold the step."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable


def numbers_in(path: str, *, below: str = "") -> set[int]:
    """The whole numbers in a path, below a directory: the names of checkpoints often hold their step."""
    return {int(number) for number in re.findall(r"\d+", path.removeprefix(below))}


def above(paths: Iterable[str]) -> str:
    """The directory over all that these paths do not share: numbers in its name, such as a run's own, tell no steps."""
    try:
        return os.path.dirname(os.path.commonpath(list(paths)))
    except ValueError:  # none, or absolute ones among relative ones
        return ""
