"""`Drift`: where two uninterrupted runs part, how far apart they get, and whether that grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from chaoskit.errors import UsageError
from chaoskit.steps import LOSS, first_apart, values
from chaoskit.suites.baseline import Baseline, Column
from chaoskit.suites.ulps import Gap

Course = Literal["", "grows", "shrinks", "stays"]
#: A step, a rank, and the name of what differs there.
Difference = tuple[int, int, str]
#: The component that holds what a job is told, and not what it computes.
OPTIONS = "options"
#: So many steps are needed to say how the gaps go on, and so many times as large must they become to grow.
FEWEST, GROWTH = 6, 10.0


@dataclass(frozen=True)
class Apart:
    """A loss that differs: in which step and backward of it (both from 1), on which rank, how far."""

    step: int
    rank: int
    backward: int
    gap: Gap


@dataclass(frozen=True)
class Drift:
    """The references of `experiments`. They part at `step`, on `rank` (None: nowhere), in `values`: each component,
    or `loss`, with both values, `absent` where one does not have it; `steps` where one ends there. `first` is the
    first loss that differs, `largest` the one furthest off, `curve` the largest relative gap of any rank, by step.
    `void` says why the two are no evidence (empty: they are), `remark` what is left out of the comparison, and why."""

    experiments: tuple[str, ...]
    old: Baseline
    new: Baseline
    step: int | None = None
    rank: int | None = None
    values: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    first: Apart | None = None
    largest: Apart | None = None
    curve: tuple[tuple[int, float], ...] = ()
    void: str = ""
    remark: str = ""

    @property
    def apart(self) -> bool:
        """Whether they part anywhere."""
        return self.step is not None

    @property
    def course(self) -> Course:
        """How the gaps go on: the median of the last third of the steps since the losses parted against that of the
        first third; empty where these are too few."""
        gaps = [gap for step, gap in self.curve if self.first is not None and step >= self.first.step]
        third = len(gaps) // 3
        if len(gaps) < FEWEST:
            return ""
        early, late = median(gaps[:third]), median(gaps[-third:])
        if late > GROWTH * early:
            return "grows"
        return "shrinks" if late < early / GROWTH else "stays"


def drift(experiments: Sequence[str], old: Baseline, new: Baseline) -> Drift:
    """Compare two references, to the bit; raises UsageError for none to compare."""
    if not experiments:
        raise UsageError("drift: experiments must name at least one")
    names = tuple(experiments)
    if void := _void(old, new):
        return Drift(names, old, new, void=void)
    if old.digest == new.digest:
        return Drift(names, old, new)
    found = _differences(old, new)
    remark = ""
    if _elsewhere(old, new):
        found = [each for each in found if each[2] in (LOSS, "steps")]
        remark = "one of the jobs computed on an accelerator, so only losses are compared"
    elif found and all(name == OPTIONS for *_, name in found):
        # A new version of torch may give the parameter groups an option more.
        found, remark = [], "options of the parameter groups differ, and nothing that was computed with them"
    step, rank, parted = _parting(old, new, found)
    losses = list(_losses(old, new))
    curve: dict[int, float] = dict.fromkeys(range(1, min(old.steps, new.steps) + 1), 0.0) if losses else {}
    for one in losses:
        curve[one.step] = max(curve[one.step], one.gap.relative)
    first = min(losses, key=lambda one: (one.step, one.rank, one.backward), default=None)
    largest = max(losses, key=lambda one: one.gap.relative, default=None)
    return Drift(names, old, new, step, rank, parted, first, largest, tuple(curve.items()), remark=remark)


def _void(old: Baseline, new: Baseline) -> str:
    """Why the two say nothing about each other."""
    wobbly = [word for word, one in (("old", old), ("new", new)) if not one.deterministic]
    if wobbly:
        which = f"the {wobbly[0]} one was" if len(wobbly) == 1 else "both were"
        return f"{which} not deterministic: two runs of the same differ by themselves"
    if set(old.ranks) != set(new.ranks):
        return f"{old.world_size} ranks against {new.world_size}: a step of one has no counterpart in the other"
    if _elsewhere(old, new) and not any(columns.get(LOSS) for columns in old.ranks.values()):
        return "no loss was seen, and fingerprints are others on an accelerator"
    return ""


def _elsewhere(old: Baseline, new: Baseline) -> bool:
    """Whether one alone computed on an accelerator, where fingerprints are taken in another way."""
    return ("device" in old.settings) != ("device" in new.settings)


def _differences(old: Baseline, new: Baseline) -> list[Difference]:
    """The first of each column of each rank; a reference that ends earlier differs there."""
    idle = {*old.idle, *new.idle}
    found: list[Difference] = []
    for rank, name in _columns(old, new):
        if name not in idle:
            a, b = _pair(old, new, rank, name)
            found += [(at + 1, rank, name) for at in first_apart(a, b)]
    if old.steps != new.steps:
        found.append((min(old.steps, new.steps) + 1, min(old.ranks), "steps"))
    return found


def _parting(
    old: Baseline, new: Baseline, found: Sequence[Difference]
) -> tuple[int | None, int | None, dict[str, tuple[str, str]]]:
    """The first step, the first rank there, and what differs in it."""
    if not found:
        return None, None, {}
    step, rank = min((step, rank) for step, rank, _ in found)
    named = [name for at, who, name in found if (at, who) == (step, rank)]
    named.sort(key=lambda name: name == LOSS)
    return step, rank, {name: _both(old, new, rank, name, step) for name in named}


def _columns(old: Baseline, new: Baseline) -> Iterator[tuple[int, str]]:
    for rank in sorted(old.ranks):
        for name in dict.fromkeys([*old.ranks[rank], *new.ranks[rank]]):
            yield rank, name


def _pair(old: Baseline, new: Baseline, rank: int, name: str) -> tuple[Column, Column]:
    """A column of both, over the steps that both have; of one that does not have it, nothing in every step."""
    count = min(old.steps, new.steps)
    own, other = (list(one.ranks[rank].get(name, ()))[:count] for one in (old, new))
    return own + [None] * (count - len(own)), other + [None] * (count - len(other))


def _both(old: Baseline, new: Baseline, rank: int, name: str, step: int) -> tuple[str, str]:
    if name == "steps":
        return ("ended", "goes on") if old.steps < new.steps else ("goes on", "ended")
    a, b = _pair(old, new, rank, name)
    return a[step - 1] or "absent", b[step - 1] or "absent"


def _losses(old: Baseline, new: Baseline) -> Iterator[Apart]:
    """Every loss that differs; of a step that made other numbers of losses none, since it is not known which is
    which."""
    for rank in sorted(old.ranks):
        a, b = _pair(old, new, rank, LOSS)
        for at in first_apart(a, b, limit=len(a)):
            own, other = values(a[at] or ""), values(b[at] or "")
            if own is None or other is None or len(own) != len(other):
                continue
            for number, (x, y) in enumerate(zip(own, other, strict=True), start=1):
                if (gap := Gap(x, y)).relative:
                    yield Apart(at + 1, rank, number, gap)
