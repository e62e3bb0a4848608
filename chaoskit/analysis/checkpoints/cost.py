"""What the checkpoints of an undisturbed job cost: seconds that its steps wait, seconds until a save is whole, bytes.

A pure function of a record, such as that of a control of a reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.rank_lifetime import RankLifetime, Save
from chaoskit.schema import Count, Seconds

#: Saves that return before their files are written.
BACKGROUND = ("dcp.async_save",)


@dataclass(frozen=True)
class SaveCost:
    """The saves of one `kind` (the function that the job calls: 'torch.save', 'dcp.async_save'), medians over `saves`.

    `blocking_seconds` is how long the training waits for one save: the slowest rank counts. `whole_seconds` is the time
    until all its files are written; `background` says that steps go on meanwhile. `bytes` is the size of all files of
    one save. `in_checkpoint` says that such a save belongs to every checkpoint that the job resumes from; an export
    does not. None stands for what the record does not tell.
    """

    kind: str
    saves: Count
    in_checkpoint: bool
    background: bool
    blocking_seconds: Seconds | None = None
    whole_seconds: Seconds | None = None
    bytes: Count | None = None


@dataclass(frozen=True)
class CheckpointCost:
    """The checkpoints of one record. `interval_steps` is the median number of steps between two checkpoints, and
    `step_seconds` the median time from step to step, both None with fewer than two. `ranks` is the world size.
    `kept_bytes` is what the job's directory has at its end. `give_up_seconds` is after how long a collective of the job
    fails."""

    ranks: Count
    saves: tuple[SaveCost, ...] = ()
    interval_steps: float | None = None
    step_seconds: Seconds | None = None
    kept_bytes: Count | None = None
    give_up_seconds: Seconds | None = None

    @property
    def parts(self) -> tuple[SaveCost, ...]:
        """The kinds of save of which one checkpoint consists."""
        return tuple(one for one in self.saves if one.in_checkpoint)

    @property
    def blocking_seconds(self) -> float | None:
        """For how long the training waits for one whole checkpoint; None where any of its parts is unknown."""
        return _sum(one.blocking_seconds for one in self.parts)

    @property
    def whole_seconds(self) -> float | None:
        """From the beginning of a checkpoint until all of it is written."""
        return _sum(one.whole_seconds for one in self.parts)

    @property
    def bytes(self) -> int | None:
        """The size of one whole checkpoint."""
        found = _sum(one.bytes for one in self.parts)
        return int(found) if found is not None else None

    @property
    def background(self) -> bool:
        """Whether steps go on while any part of a checkpoint is written."""
        return any(one.background for one in self.parts)


def checkpoint_cost(history: History) -> CheckpointCost:
    """Measure the saves of the first incarnation of a record."""
    lifetimes = history.incarnations[0].ranks if history.incarnations else {}
    gaps = [later - t for own in lifetimes.values() for t, later in pairwise(own.steps.times)]
    usual = median(gaps) if gaps else None
    kinds: dict[str, dict[int, dict[int, list[Save]]]] = {}
    for rank, own in lifetimes.items():
        for save in own.saves:
            if save.n > 0 and save.ok:
                kinds.setdefault(save.api, {}).setdefault(save.n, {}).setdefault(rank, []).append(save)
    # A job that makes nothing but weights resumes from those.
    full = {save.n for own in lifetimes.values() for save in own.saves if save.full and save.n > 0} or {
        n for found in kinds.values() for n in found
    }
    costs = tuple(_cost(kind, found, full, lifetimes, usual) for kind, found in sorted(kinds.items()))
    spans = [later - n for n, later in pairwise(sorted(full))]
    timeouts = [own.group_timeout for own in lifetimes.values() if own.group_timeout is not None]
    listed = history.files[-1]["files"] if history.files else None
    return CheckpointCost(
        ranks=len(lifetimes),
        saves=costs,
        interval_steps=float(median(spans)) if spans else None,
        step_seconds=usual,
        kept_bytes=sum(size for _, size in listed) if listed is not None else None,
        give_up_seconds=max(timeouts, default=None),
    )


def _cost(
    kind: str,
    found: Mapping[int, Mapping[int, Sequence[Save]]],
    full: Set[int],
    lifetimes: Mapping[int, RankLifetime],
    usual: float | None,
) -> SaveCost:
    waits, wholes, sizes = [], [], []
    background = kind in BACKGROUND
    for n, ranks in found.items():
        every = [save for own in ranks.values() for save in own]
        later = {rank: _next_step(lifetimes[rank], n) for rank in ranks}
        background = background or any(_outlasts(save, later[rank]) for rank, own in ranks.items() for save in own)
        ends = [save.ended for save in every if save.ended is not None]
        if len(ends) == len(every):
            wholes.append(max(ends) - min(save.begun for save in every))
        if None not in (own := [_waits(saves, later[rank], usual, background) for rank, saves in ranks.items()]):
            waits.append(max(seconds for seconds in own if seconds is not None))
        if size := _size(every):
            sizes.append(size)
    return SaveCost(
        kind,
        len(found),
        2 * len(full & found.keys()) > len(full),
        background,
        median(waits) if waits else None,
        median(wholes) if wholes else None,
        int(median(sizes)) if sizes else None,
    )


def _next_step(lifetime: RankLifetime, n: int) -> float | None:
    """When the step that follows on step `n` was about to be taken."""
    at = lifetime.steps.past(n)
    return lifetime.steps.times[at] if at < len(lifetime.steps) else None


def _outlasts(save: Save, next_step: float | None) -> bool:
    return save.ended is not None and next_step is not None and save.ended > next_step


def _waits(saves: Sequence[Save], next_step: float | None, usual: float | None, background: bool) -> float | None:
    """For how long these calls of one rank hold it up. A call that blocks does so until it ends. One that works in the
    background holds up what the way to the next step takes longer than usual; the probe's own work for the record
    lies before the beginning of a save, and does not count."""
    if not background:
        seconds, until = 0.0, float("-inf")
        for save in saves:
            if save.ended is None:
                return None
            seconds += max(0.0, save.ended - max(save.begun, until))
            until = max(until, save.ended)
        return seconds
    if next_step is None or usual is None:
        return None
    return max(0.0, next_step - min(save.begun for save in saves) - usual)


def _size(saves: Iterable[Save]) -> int:
    """The bytes of all files; one that several ranks list counts once."""
    files: dict[tuple[str, str], int] = {}
    for save in saves:
        for name, size in save.files.items():
            files[save.path, name] = max(size, files.get((save.path, name), 0))
    return sum(files.values())


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return sum(value for value in known if value is not None) if known and None not in known else None
