"""Pace: what a launch of the job cost, and how long one of its steps took."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from chaoskit.analysis.record.history import History, lifetimes


def launch_seconds(history: History) -> float | None:
    """From the start of the command to the first optimizer step of any rank: the median over the launches that came
    to one; None if none did."""
    spans = []
    for launch in history.launches:
        firsts = [inc.first_step for inc in history.incarnations if inc.launch == launch.index]
        if known := [t for t in firsts if t is not None]:
            spans.append(min(known) - launch.begun)
    return median(spans) if spans else None


def step_seconds(history: History) -> float | None:
    """From one optimizer step to the next: the median over every rank, so that what struck a few steps does not
    count; None if nobody took two."""
    gaps = [later - t for _, lifetime in lifetimes(history) for t, later in pairwise(lifetime.steps.times)]
    return median(gaps) if gaps else None
