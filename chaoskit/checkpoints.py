"""Checkpoints as the probe saw them being written, and which of them a resume may take.

"The last valid checkpoint" is the newest whose save had *settled* before the fault: it had ended on every rank
that saves, and every rank had gone on to its next step (for an asynchronous one, to the step after that). A save that
had begun and not settled may or may not have become a checkpoint (a rename or a pointer may still have been due):
taking it and not taking it are both right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from chaoskit.dumps import dumps, kind_of
from chaoskit.hindrance import hindrances
from chaoskit.history import History, Incarnation, lives
from chaoskit.life import Save
from chaoskit.reference import Reference
from chaoskit.remains import damaged_by, destroyed, gone_by, removed
from chaoskit.timeline import Timeline, struck_at


@dataclass(frozen=True)
class Checkpoint:
    """All that one incarnation wrote at one position.

    `ended` is None while a call was open; `complete` says that every rank that should have written has done so
    without an error; `settled_at` is None where it never settled. It is `hindered` if a fault had the storage fail
    meanwhile: then it never settled as far as anybody knows, and may be a checkpoint although a write of it failed, for
    the job may have tried again elsewhere. Times as in the events.
    """

    position: int
    incarnation: int
    begun: float
    ended: float | None
    ok: bool
    complete: bool
    settled_at: float | None
    paths: frozenset[str]
    hindered: bool = False

    @property
    def kinds(self) -> frozenset[str]:
        """The paths with their numbers taken out, which tells 'best.pt' from 'step-40.pt'."""
        return frozenset(re.sub(r"\d+", "#", "/".join(PurePosixPath(path).parts[-2:])) for path in self.paths)


def checkpoints(history: History, timeline: Timeline) -> tuple[Checkpoint, ...]:
    """Every checkpoint past position 0 that was begun, in the order in which they were."""
    found = []
    any_full = any(save.full for _, life in lives(history) for save in life.saves)
    whole = {_directory(save.path) for _, life in lives(history) for save in life.saves if save.full} - {""}
    due = _due(timeline) if whole else frozenset()
    failing = list(hindrances(history))
    dumped = dumps(history)
    for inc in history.incarnations:
        # An incarnation without a step may save as well, but nothing tells at which position.
        base = timeline.base(inc.index)
        if base is None:
            continue
        made = [save for life in inc.ranks.values() for save in life.saves if base + save.n > 0]
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
    found = (life for control in controls for life in control.incarnations[0].ranks.values())
    return frozenset(save.n for life in found for save in life.saves if save.full)


def _directory(path: str) -> str:
    """The directory that a file is saved in, its numbers taken out, where that is one checkpoint's own; else empty."""
    name = PurePosixPath(path).parent.name
    return re.sub(r"\d+", "#", name) if re.search(r"\d", name) else ""


def _checkpoint(inc: Incarnation, base: int, n: int, reference: Reference | None) -> Checkpoint:
    calls = {rank: _tried([save for save in life.saves if save.n == n]) for rank, life in inc.ranks.items()}
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
    for life in inc.ranks.values():
        place = max(life.steps.past(n), life.steps.before(ended))
        # Steps were taken while it was written: whoever looks once a step whether it is done, and then publishes it,
        # has had the time to once the step after next is due.
        place += place > life.steps.past(n)
        next_step = life.steps.times[place] if place < len(life.steps) else None
        gone = life.end if life.end is not None and life.end >= ended else None
        own = next_step if next_step is not None else gone
        if own is None:
            return None
        times.append(own)
    return max(times, default=None)


@dataclass(frozen=True)
class Resume:
    """An incarnation that took steps after an earlier life of the ranks had been struck.

    `before` is the incarnation that had taken steps last (or the first of all); `struck` is when that one was
    struck (or gave its last sign of life); `faults` are the numbers of the faults in between. `position` is how
    many steps every rank had taken by then. `last_valid` and `acceptable` are positions; `destroyed` says that the
    last valid checkpoint lay at a path that an unfinished save was overwriting, `removed` that no file of it was left
    when the launch had ended, though of older ones there was; `torn` are positions of unfinished
    saves, `damaged` of those that a fault has altered since, `seen` all checkpoints that had been begun. `beneath` are
    those next to ones that were altered, where newer ones were not: these may hang on what was altered.
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
    beneath: frozenset[int] = frozenset()

    @property
    def window(self) -> bool:
        """Whether a save was on its way, so that several positions are right."""
        return len(self.acceptable - self.beneath) > 1


def resumes(history: History, timeline: Timeline) -> tuple[Resume, ...]:
    """Every resume of the run that took at least one step, in order."""
    written = checkpoints(history, timeline)
    stepped = list(timeline.starts)
    return tuple(
        resume_after(history, timeline, written, inc)
        for inc in history.incarnations
        if inc.index > 0 and inc.index in stepped
    )


def resume_after(
    history: History, timeline: Timeline, written: tuple[Checkpoint, ...], inc: Incarnation
) -> Resume:
    """What was there to resume from when `inc` came up, whether or not it took a step."""
    before = max((index for index in timeline.starts if index < inc.index), default=0)
    previous = history.incarnations[before]
    struck, faults = _struck(history, previous, inc.start)
    seen = tuple(one for one in written if one.incarnation < inc.index and one.begun < inc.start)
    harmed = damaged_by(history, written, inc.start)
    lost = (*harmed, *gone_by(history, written, inc.start))
    whole = [one for one in seen if one not in lost]
    settled = {one.position: one for one in whole if one.settled_at is not None and one.settled_at <= struck}
    valid = [(one.begun, one.position) for one in settled.values()]
    # What an earlier life has resumed from was whole, whatever became of its save.
    valid += [
        (history.incarnations[index].start, start.base)
        for index, start in timeline.starts.items()
        if 0 < index < inc.index
        and start.base
        and start.exact
        and not any(one.position == start.base for one in lost)
    ]
    last_valid = max((position for _, position in valid), default=0)
    # After a life that had gone back, the newest by number and the newest by time may be two.
    since, latest = max(valid, default=(0.0, last_valid))
    acceptable = {last_valid, latest}
    for one in whole:
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
    beneath = frozenset(max(those) for those in older if those) - acceptable
    return Resume(
        incarnation=inc.index,
        before=before,
        struck=struck,
        faults=faults,
        position=position_at(timeline, previous, struck),
        last_valid=last_valid,
        acceptable=beneath | acceptable,
        destroyed=destroyed(history, settled.get(last_valid), seen),
        removed=removed(history, last_valid, seen, inc.start),
        torn=torn,
        damaged=damaged,
        seen=seen,
        beneath=beneath,
    )


def _struck(history: History, previous: Incarnation, until: float) -> tuple[float, tuple[int, ...]]:
    """When the life before was struck, and by which faults. A fault past which every rank went on stepping has not
    ended that life: then its last sign of life counts."""
    between = [
        (t, fault.index)
        for fault in history.faults
        if fault.observed is not None and (t := struck_at(fault)) is not None and previous.start <= t < until
    ]
    last_sign = max(
        (life.steps.times[-1] for life in previous.ranks.values() if life.steps), default=previous.start
    )
    numbers = tuple(index for _, index in between)
    if not between:
        return last_sign, numbers
    t = max(between)[0]
    # One more step may have been under way on the ranks that were not struck.
    survived = all(len(life.steps) - life.steps.until(t) > 1 for life in previous.ranks.values())
    return (last_sign if survived else t), numbers


def position_at(timeline: Timeline, inc: Incarnation, t: float) -> int:
    """How many steps of the whole training every rank of `inc` had taken at time `t`."""
    taken = [(life.steps, life.steps.until(t)) for life in inc.ranks.values()]
    counts = [steps.numbers[count - 1] if count else 0 for steps, count in taken]
    return (timeline.base(inc.index) or 0) + min(counts, default=0)
