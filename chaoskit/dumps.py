"""Dumps: what a job that has met a bad number writes for the post-mortem before it ends, and never resumes from."""

from __future__ import annotations

import re

from chaoskit.corruption import is_corruption
from chaoskit.history import History, lives
from chaoskit.life import Load, Save
from chaoskit.timeline import struck_at


def kind_of(path: str) -> str:
    """A path with its numbers taken out."""
    return re.sub(r"\d+", "#", path)


def dumps(history: History) -> frozenset[str]:
    """The kinds of files that were only ever written after a fault had corrupted a number, as the last thing in a life
    that then ended with an error, and that nobody read."""
    times = [t for fault in history.faults if is_corruption(fault) and (t := struck_at(fault)) is not None]
    if not times:
        return frozenset()
    failed = {launch.index for launch in history.launches if launch.code != 0}
    loads = [load for _, life in lives(history) for load in life.loads]
    last: set[str] = set()
    others: set[str] = {kind_of(load.path) for load in loads}
    for inc, life in lives(history):
        again = any(each.launch == inc.launch and each.index > inc.index for each in history.incarnations)
        for save in life.saves:
            ended = life.steps.past(save.n) == len(life.steps) and (again or inc.launch in failed)
            final = save.begun > min(times) and ended and not any(_came_back(save, load) for load in loads)
            (last if final else others).add(kind_of(save.path))
    return frozenset(last - others)


def _came_back(save: Save, load: Load) -> bool:
    """Whether most of what was saved is what was read."""
    shared = save.content.items() & load.content.items()
    return bool(shared) and 2 * len(shared) > len(save.content)
