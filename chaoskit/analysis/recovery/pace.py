"""Pace: what a launch of the job cost, how long one of its steps took, and how long it was quiet in between."""

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


def longest_quiet(history: History) -> float:
    """The longest time, in seconds, in which no rank began, took a step, saved, loaded or ended while the command ran;
    0 where nothing was recorded."""
    signs = [t for one in history.launches for t in (one.begun, one.ended) if t is not None]
    for _, lifetime in lifetimes(history):
        signs += [lifetime.start, *lifetime.steps.times]
        signs += [t for save in lifetime.saves for t in (save.begun, save.ended) if t is not None]
        signs += [t for load in lifetime.loads for t in (load.begun, load.ended) if t is not None]
        signs += [t for t in (lifetime.left, lifetime.end) if t is not None]
    return max((later - t for t, later in pairwise(sorted(signs))), default=0.0)
