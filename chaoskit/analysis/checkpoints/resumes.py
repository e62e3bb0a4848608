"""Resumes: from which checkpoints each new incarnation could resume, and which of them was the last valid one.

The last valid checkpoint is the newest whose save had settled before the fault (see `checkpoints`). A save that had
begun and not settled may or may not have become a checkpoint: to resume from it is right, and so is not to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from chaoskit.analysis.alignment.timeline import Timeline, struck_at
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.checkpoints.damage import damaged_by, destroyed, gone_by, removed
from chaoskit.analysis.record.history import History, Incarnation


@dataclass(frozen=True)
class Resume:
    """An incarnation that took steps after a fault had struck an earlier one.

    `before` is the incarnation that had taken steps last (or the first of all); `struck` is when that one was struck
    (or gave its last sign of life); `faults` are the numbers of the faults in between. `position` is how many steps
    every rank had taken by then. `last_valid` and `acceptable` are positions; `destroyed` says that the last valid
    checkpoint lay at a path that an unfinished save was overwriting, `removed` that no file of it was left when the
    launch had ended, though of older ones there was; `torn` are positions of unfinished saves, `damaged` of those
    that a fault has altered since, `seen` all checkpoints that had been begun. `below_damaged` are those just before
    altered ones, if newer ones were not altered: the newer ones may depend on the altered one. From `requested` on, the
    fault may have shown: that it was applied is put down when it has been, on a busy machine some time later.
    """

    incarnation: int
    before: int
    struck: float
    faults: tuple[int, ...]
    position: int
    last_valid: int
    acceptable: frozenset[int]
    destroyed: bool
    removed: bool
    torn: frozenset[int]
    damaged: frozenset[int]
    seen: tuple[Checkpoint, ...]
    below_damaged: frozenset[int] = frozenset()
    requested: float = math.inf

    @property
    def window(self) -> bool:
        """Whether a save was running at the fault, so that several positions are right."""
        return len(self.acceptable - self.below_damaged) > 1


def resumes(history: History, timeline: Timeline, written: tuple[Checkpoint, ...]) -> tuple[Resume, ...]:
    """Every resume of the run that took at least one step, in order. `written` are the run's `checkpoints`."""
    stepped = list(timeline.starts)
    return tuple(
        resume_after(history, timeline, written, inc)
        for inc in history.incarnations
        if inc.index > 0 and inc.index in stepped
    )


def resume_after(
    history: History, timeline: Timeline, written: tuple[Checkpoint, ...], inc: Incarnation
) -> Resume:
    """Return the checkpoints from which `inc` could resume, whether or not it took a step."""
    before = max((index for index in timeline.starts if index < inc.index), default=0)
    previous = history.incarnations[before]
    struck, requested, faults = _struck(history, previous, inc.start)
    seen = tuple(one for one in written if one.incarnation < inc.index and one.begun < inc.start)
    harmed = damaged_by(history, written, inc.start)
    lost = (*harmed, *gone_by(history, written, inc.start))
    intact = [one for one in seen if one not in lost]
    settled = {one.position: one for one in intact if one.settled_at is not None and one.settled_at <= struck}
    valid = [(one.begun, one.position) for one in settled.values()]
    # What an earlier lifetime has resumed from was whole, whatever became of its save.
    valid += [
        (history.incarnations[index].start, start.base)
        for index, start in timeline.starts.items()
        if 0 < index < inc.index
        and start.base
        and start.exact
        and not any(one.position == start.base for one in lost)
    ]
    last_valid = max((position for _, position in valid), default=0)
    # After a lifetime that had rolled back, the newest by number and the newest by time may be two.
    since, latest = max(valid, default=(0.0, last_valid))
    acceptable = {last_valid, latest}
    for one in intact:
        unsettled = one.settled_at is None or one.settled_at > struck
        if unsettled and (one.ok or one.hindered) and one.begun > since:
            acceptable.add(one.position)
    torn = frozenset(one.position for one in seen if not one.complete and one.incarnation == before)
    damaged = frozenset(one.position for one in harmed) - {one.position for one in settled.values()}
    own = timeline.starts.get(inc.index)
    if own is not None and own.base in {one.position for one in lost} and own.exact and own.base > last_valid:
        # What was altered did not matter, or the job has another copy: what came of it is right to the bit.
        acceptable.add(own.base)
    # Nobody but the job knows what its checkpoints are made of: the newest may be a delta to one that was altered.
    altered = [position for position in damaged if position < last_valid]
    older = [[position for position in settled if position < one] for one in altered]
    below_damaged = frozenset(max(those) for those in older if those) - acceptable
    return Resume(
        incarnation=inc.index,
        before=before,
        struck=struck,
        faults=faults,
        position=position_at(timeline, previous, struck),
        last_valid=last_valid,
        acceptable=below_damaged | acceptable,
        destroyed=destroyed(history, settled.get(last_valid), seen),
        removed=removed(history, last_valid, seen, inc.start),
        torn=torn,
        damaged=damaged,
        seen=seen,
        below_damaged=below_damaged,
        requested=requested,
    )


def _struck(history: History, previous: Incarnation, until: float) -> tuple[float, float, tuple[int, ...]]:
    """When the lifetime before was struck, when that was requested, and by which faults. A fault past which every rank
    went on stepping has not ended that lifetime: then its last sign of life counts."""
    between = [
        (t, fault.index)
        for fault in history.faults
        if fault.observed is not None and (t := struck_at(fault)) is not None and previous.start <= t < until
    ]
    last_sign = max(
        (lifetime.steps.times[-1] for lifetime in previous.ranks.values() if lifetime.steps),
        default=previous.start,
    )
    numbers = tuple(index for _, index in between)
    if not between:
        return last_sign, last_sign, numbers
    t, last = max(between)
    requested = next(fault.requested for fault in history.faults if fault.index == last)
    if requested is None or not previous.start <= requested <= t:
        requested = t
    # One more step may have been under way on the ranks that were not struck.
    survived = all(len(lifetime.steps) - lifetime.steps.until(t) > 1 for lifetime in previous.ranks.values())
    return (last_sign, last_sign, numbers) if survived else (t, requested, numbers)


def position_at(timeline: Timeline, inc: Incarnation, t: float) -> int:
    """How many steps of the whole training every rank of `inc` had taken at time `t`."""
    taken = [(lifetime.steps, lifetime.steps.until(t)) for lifetime in inc.ranks.values()]
    counts = [steps.numbers[count - 1] if count else 0 for steps, count in taken]
    return (timeline.base(inc.index) or 0) + min(counts, default=0)
