"""Dumps: files that a job writes after a bad number for a post-mortem before it ends, and never resumes from."""

from __future__ import annotations

import re

from chaoskit.analysis.alignment.timeline import struck_at
from chaoskit.analysis.corruption.injected import is_corruption
from chaoskit.analysis.record.history import History, lifetimes
from chaoskit.analysis.record.rank_lifetime import Load, Save


def kind_of(path: str) -> str:
    """A path with its numbers taken out."""
    return re.sub(r"\d+", "#", path)


def dumps(history: History) -> frozenset[str]:
    """The kinds of files that were only ever written after a fault had corrupted a number, as the last thing in a
    lifetime that then ended with an error, and that nobody read."""
    times = [t for fault in history.faults if is_corruption(fault) and (t := struck_at(fault)) is not None]
    if not times:
        return frozenset()
    failed = {launch.index for launch in history.launches if launch.code != 0}
    loads = [load for _, lifetime in lifetimes(history) for load in lifetime.loads]
    last: set[str] = set()
    others: set[str] = {kind_of(load.path) for load in loads}
    for inc, lifetime in lifetimes(history):
        again = any(each.launch == inc.launch and each.index > inc.index for each in history.incarnations)
        for save in lifetime.saves:
            ended = lifetime.steps.past(save.n) == len(lifetime.steps) and (again or inc.launch in failed)
            final = save.begun > min(times) and ended and not any(_came_back(save, load) for load in loads)
            (last if final else others).add(kind_of(save.path))
    return frozenset(last - others)


def _came_back(save: Save, load: Load) -> bool:
    """Whether most of what was saved is what was read."""
    shared = save.content.items() & load.content.items()
    return bool(shared) and 2 * len(shared) > len(save.content)
