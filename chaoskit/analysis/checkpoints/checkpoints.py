"""The checkpoints of a run, as the probe saw the ranks write them.

A save has *settled* once it has ended on every rank that saves and every rank has gone on to its next step (after an
asynchronous save, to the step after that). Until then a rename or an update of a pointer may still be due.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath

from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.checkpoints.postmortem_dumps import dumps, kind_of
from chaoskit.analysis.checkpoints.storage_outages import hindrances
from chaoskit.analysis.record.history import History, Incarnation, lifetimes, saves_whole
from chaoskit.analysis.record.rank_lifetime import Save
from chaoskit.analysis.reference.reference import Reference


def checkpoints(history: History, timeline: Timeline) -> tuple[Checkpoint, ...]:
    """Every checkpoint past position 0 that was begun, in the order in which they were."""
    found = []
    any_full = saves_whole([history])
    whole = {
        _directory(save.path) for _, lifetime in lifetimes(history) for save in lifetime.saves if save.full
    } - {""}
    due = _due(timeline) if whole else frozenset()
    failing = list(hindrances(history))
    dumped = dumps(history)
    for inc in history.incarnations:
        # An incarnation without a step may save as well, but nothing tells at which position.
        base = timeline.base(inc.index)
        if base is None:
            continue
        made = [save for lifetime in inc.ranks.values() for save in lifetime.saves if base + save.n > 0]
        made = [save for save in made if kind_of(save.path) not in dumped] if dumped else made
        # Weights alone are an export, unless the job saves nothing else; or the rest of a checkpoint did not come.
        torn = {save.n for save in made if base + save.n in due and _directory(save.path) in whole}
        for n in {save.n for save in made if save.full or not any_full} | torn:
            one = _checkpoint(inc, base, n, timeline.reference)
            hindered = any(each.meets(one.begun, one.settled_at) for each in failing)
            found.append(replace(one, settled_at=None, hindered=True) if hindered else one)
    return tuple(sorted(found, key=lambda one: one.begun))


def _due(timeline: Timeline) -> frozenset[int]:
    """The positions at which the reference makes a whole checkpoint."""
    controls = timeline.reference.controls[:1] if timeline.reference is not None else ()
    found = (lifetime for control in controls for lifetime in control.incarnations[0].ranks.values())
    return frozenset(save.n for lifetime in found for save in lifetime.saves if save.full)


def _directory(path: str) -> str:
    """The directory that a file is saved in, its numbers taken out, where that is one checkpoint's own; else empty."""
    name = PurePosixPath(path).parent.name
    return re.sub(r"\d+", "#", name) if re.search(r"\d", name) else ""


def _checkpoint(inc: Incarnation, base: int, n: int, reference: Reference | None) -> Checkpoint:
    calls = {
        rank: _tried([save for save in lifetime.saves if save.n == n]) for rank, lifetime in inc.ranks.items()
    }
    every = [save for own in calls.values() for save in own]
    ended = max((save.ended for save in every if save.ended is not None), default=None)
    if any(save.ended is None for save in every):
        ended = None
    ok = all(save.ok for save in every)
    complete = ok and ended is not None and _all_written(inc, base + n, calls, reference)
    settled = _settled(inc, n, ended) if complete and ended is not None else None
    paths = frozenset(save.path for save in every)
    return Checkpoint(base + n, inc.index, min(save.begun for save in every), ended, ok, complete, settled, paths)


def _tried(saves: list[Save]) -> list[Save]:
    """The calls of one rank without those that failed and were made again to the same path."""
    return [
        save
        for at, save in enumerate(saves)
        if save.ok or not any(later.path == save.path for later in saves[at + 1 :])
    ]


def _all_written(
    inc: Incarnation, position: int, calls: dict[int, list[Save]], reference: Reference | None
) -> bool:
    """Whether every rank that saves there in the reference made its calls, or at least one before it went on."""
    if reference is None:
        return True
    savers = reference.savers(position)
    if inc.world_size != reference.world_size == len(savers) > 1:
        savers = tuple(range(inc.world_size))  # where all save, all have to, however many they are
    for rank in (rank for rank in savers if rank < inc.world_size):
        own = calls.get(rank)
        if not own:
            return False
        steps = inc.ranks[rank].steps
        went_on = steps.past(own[-1].n) < len(steps)
        if len(own) < reference.save_calls(rank, position) and not went_on:
            return False
    return True


def _settled(inc: Incarnation, n: int, ended: float) -> float | None:
    """When every rank, past the end of the save, was at its next step or had ended its process by itself."""
    times = []
    for lifetime in inc.ranks.values():
        place = max(lifetime.steps.past(n), lifetime.steps.before(ended))
        # Steps were taken while it was written: whoever looks once a step whether it is done, and then publishes it,
        # has had the time to once the step after next is due.
        place += place > lifetime.steps.past(n)
        next_step = lifetime.steps.times[place] if place < len(lifetime.steps) else None
        gone = lifetime.end if lifetime.end is not None and lifetime.end >= ended else None
        own = next_step if next_step is not None else gone
        if own is None:
            return None
        times.append(own)
    return max(times, default=None)
