"""`Drift`: where two uninterrupted runs diverge, by how much, and whether the difference grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from chaoskit.analysis.record.column import first_apart
from chaoskit.analysis.record.steps import LOSS, values
from chaoskit.analysis.stats.ulps import UlpDistance
from chaoskit.errors import UsageError
from chaoskit.studies.nights.baseline import Baseline, Column

Course = Literal["", "grows", "shrinks", "stays"]
#: A step, a rank, and the name of what differs there.
Difference = tuple[int, int, str]
#: The component with the configuration of the optimizer, which is not a result of computation.
OPTIONS = "options"
#: Steps needed to judge the trend of the differences, and the factor from which they count as growing.
FEWEST, GROWTH = 6, 10.0


@dataclass(frozen=True)
class LossDistance:
    """A loss that differs: step, rank, backward pass of the step (step and pass count from 1), and difference."""

    step: int
    rank: int
    backward: int
    gap: UlpDistance


@dataclass(frozen=True)
class Drift:
    """The references of `experiments`. They diverge at `step` on `rank` (None: nowhere), in `values`: both values of
    each component or `loss`, `absent` if one lacks it; `steps` if one ends there. `first` is the first loss that
    differs, `largest` the one with the largest difference, `curve` the largest relative difference of any rank by step.
    `void` says why the two cannot be compared (empty: they can), `remark` what the comparison omits, and why."""

    experiments: tuple[str, ...]
    old: Baseline
    new: Baseline
    step: int | None = None
    rank: int | None = None
    values: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    first: LossDistance | None = None
    largest: LossDistance | None = None
    curve: tuple[tuple[int, float], ...] = ()
    void: str = ""
    remark: str = ""

    @property
    def apart(self) -> bool:
        """Whether the references diverge."""
        return self.step is not None

    @property
    def mended(self) -> bool:
        """Whether the old job was not deterministic and the new one is."""
        return self.new.deterministic and not self.old.deterministic

    @property
    def course(self) -> Course:
        """The trend of the differences since the first one: compares the medians of the first and the last third of the
        steps; empty if there are too few steps."""
        gaps = [gap for step, gap in self.curve if self.first is not None and step >= self.first.step]
        third = len(gaps) // 3
        if len(gaps) < FEWEST:
            return ""
        early, late = median(gaps[:third]), median(gaps[-third:])
        if late > GROWTH * early:
            return "grows"
        return "shrinks" if late < early / GROWTH else "stays"


def drift(experiments: Sequence[str], old: Baseline, new: Baseline) -> Drift:
    """Compare two references bitwise; raises UsageError if `experiments` is empty."""
    if not experiments:
        raise UsageError("drift: experiments is empty: name at least one")
    names = tuple(experiments)
    if void := _void(old, new):
        return Drift(names, old, new, void=void)
    if old.digest == new.digest:
        return Drift(names, old, new)
    found = _differences(old, new)
    remark = ""
    if _elsewhere(old, new):
        found = [each for each in found if each[2] in (LOSS, "steps")]
        remark = "only one of the jobs used an accelerator, so only losses are compared"
    elif found and all(name == OPTIONS for *_, name in found):
        # A new version of torch may add an option to the parameter groups.
        found, remark = [], "options of the parameter groups differ, but no computed value does"
    step, rank, parted = _parting(old, new, found)
    losses = list(_losses(old, new))
    curve: dict[int, float] = dict.fromkeys(range(1, min(old.steps, new.steps) + 1), 0.0) if losses else {}
    for one in losses:
        curve[one.step] = max(curve[one.step], one.gap.relative)
    first = min(losses, key=lambda one: (one.step, one.rank, one.backward), default=None)
    largest = max(losses, key=lambda one: one.gap.relative, default=None)
    return Drift(names, old, new, step, rank, parted, first, largest, tuple(curve.items()), remark=remark)


def _void(old: Baseline, new: Baseline) -> str:
    """Return why the two references cannot be compared; empty if they can."""
    unstable = [word for word, one in (("old", old), ("new", new)) if not one.deterministic]
    if unstable:
        which = f"the {unstable[0]} one is" if len(unstable) == 1 else "both are"
        return f"{which} not deterministic, so two runs differ without any change"
    if set(old.ranks) != set(new.ranks):
        return f"old has {old.world_size} ranks, new has {new.world_size}, so their steps do not correspond"
    if _elsewhere(old, new) and not any(columns.get(LOSS) for columns in old.ranks.values()):
        return "no loss was recorded, and fingerprints from an accelerator are not comparable with others"
    return ""


def _elsewhere(old: Baseline, new: Baseline) -> bool:
    """Whether only one of them used an accelerator, where fingerprints are computed in a different way."""
    return ("device" in old.settings) != ("device" in new.settings)


def _differences(old: Baseline, new: Baseline) -> list[Difference]:
    """Return the first difference of each column of each rank; a shorter reference differs after its end."""
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
    """Return the first step that differs, its first rank, and the values that differ."""
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
    """Return a column of both references over their common steps; None for each step of a missing column."""
    count = min(old.steps, new.steps)
    own, other = (list(one.ranks[rank].get(name, ()))[:count] for one in (old, new))
    return own + [None] * (count - len(own)), other + [None] * (count - len(other))


def _both(old: Baseline, new: Baseline, rank: int, name: str, step: int) -> tuple[str, str]:
    if name == "steps":
        return ("ended", "goes on") if old.steps < new.steps else ("goes on", "ended")
    a, b = _pair(old, new, rank, name)
    return a[step - 1] or "absent", b[step - 1] or "absent"


def _losses(old: Baseline, new: Baseline) -> Iterator[LossDistance]:
    """Yield every loss that differs; a step with different numbers of losses is omitted, because its losses do not
    correspond."""
    for rank in sorted(old.ranks):
        a, b = _pair(old, new, rank, LOSS)
        for at in first_apart(a, b, limit=len(a)):
            own, other = values(a[at] or ""), values(b[at] or "")
            if own is None or other is None or len(own) != len(other):
                continue
            for number, (x, y) in enumerate(zip(own, other, strict=True), start=1):
                if (gap := UlpDistance(x, y)).relative:
                    yield LossDistance(at + 1, rank, number, gap)
