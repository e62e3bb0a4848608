"""`Ledger`: what a run consumed on its effective timeline compared with the reference, sample by sample.

Both are multisets over all ranks, so that duplicates in the data and samples that return in every epoch confuse
nothing: a sample was replayed if it was consumed more often than in the reference, skipped if less often. If all
counts agree, the order is compared. If samples could not be told apart, batches are counted. A data set that augments
its rows at random makes samples that the reference never has: then the rows themselves are counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.consumed_data import (
    Consumed,
    Unit,
    column_of,
    differences,
    differences_between_sizes,
    units_of,
)
from chaoskit.analysis.data_shift import consequence
from chaoskit.analysis.known_rows import rows_tell
from chaoskit.analysis.record.steps import Steps
from chaoskit.analysis.reference.reference import Reference

#: So many units are named.
SHOWN = 20

#: So many steps in the order of another epoch are no chance.
TELLING = 3

_MANY: Mapping[Unit, str] = {"sample": "samples", "batch": "batches", "row": "rows"}


@dataclass(frozen=True)
class DataPosition:
    """Where a unit was consumed, or was due: true step and rank. `again` is the last step before at which the
    reference consumes it, else the first one after; None if it never does."""

    step: int
    rank: int
    again: int | None = None


@dataclass(frozen=True)
class Ledger:
    """Counts of `unit` ('sample', 'batch', or 'row' of the data set), with the first place of each kind.

    `strange` are the replayed ones that the reference never consumes. `reordered` counts steps. `tail` names the kind
    that is but a consequence of the other: what consumes a hundred samples again in a fixed number of steps never comes
    to the last hundred (see `data_shift`). `epochs` are the numbers (from 1) of the epochs in which samples are wrong,
    as far as the reference tells where epochs begin; `orders` are those of them whose wrong steps all are what another
    epoch has at the same place, with the number of that one: a sampler was not told its epoch. `undetermined`: the job
    consumed what the reference never does, and of which rows of the data that is made is not known: counts then prove
    neither that rows came again nor that any were left out.
    """

    unit: Unit
    replayed: int = 0
    skipped: int = 0
    strange: int = 0
    reordered: int = 0
    tail: Literal["", "replayed", "skipped"] = ""
    first_replayed: DataPosition | None = None
    first_skipped: DataPosition | None = None
    first_reordered: DataPosition | None = None
    epochs: tuple[int, ...] = ()
    repeated: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    orders: tuple[tuple[int, int], ...] = ()
    undetermined: bool = False

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of what is wrong; none if nothing is."""
        if self.undetermined:
            return ("data-differs",)
        replayed = self.replayed and self.tail != "replayed"
        if replayed and self.strange == self.replayed:
            return ("data-reordered",)
        skipped = self.skipped and self.tail != "skipped"
        found = {"data-replayed": replayed, "data-skipped": skipped, "data-reordered": self.reordered}
        return tuple(code for code, count in found.items() if count)

    @property
    def sentence(self) -> str:
        """What is wrong, with counts and first places; empty if nothing is."""
        parts = []
        if self.replayed and (place := self.first_replayed) is not None:
            where = f"first at step {place.step}, rank {place.rank}"
            many = self._many(self.replayed)
            if self.undetermined:
                strange = self._many(self.strange)
                return (
                    f"the batches differ, and which rows of the data they are of cannot be determined: {strange} that "
                    f"the reference never consumes ({where})"
                )
            if self.strange == self.replayed:
                parts.append(f"{many} that the reference never consumes ({where})")
            else:
                whose = f"that of step {place.again}" if place.again is not None else "none that the reference has"
                parts.append(f"{many} consumed too often ({where}: {whose}){self._why('replayed')}")
        if self.skipped and (place := self.first_skipped) is not None:
            where = f"first due at step {place.step}, rank {place.rank}"
            parts.append(f"{self._many(self.skipped)} skipped ({where}){self._why('skipped')}")
        if self.reordered and (place := self.first_reordered) is not None:
            where = f"first at step {place.step}, rank {place.rank}"
            parts.append(f"the same {_MANY[self.unit]} in a different order in {self.reordered} steps ({where})")
        epochs = f" in epoch {', '.join(map(str, self.epochs))}" if self.epochs else ""
        orders = ", ".join(f"epoch {own} has the order of epoch {other}" for own, other in self.orders)
        return ", ".join(parts) + epochs + (f": {orders}" if orders else "")

    def _many(self, count: int) -> str:
        return f"{count} {self.unit if count == 1 else _MANY[self.unit]}"

    def _why(self, kind: str) -> str:
        return ", which follows from the number of steps" if self.tail == kind else ""

    def to_json(self) -> dict[str, object]:
        """For the evidence."""
        places = {name: getattr(self, name) for name in ("first_replayed", "first_skipped", "first_reordered")}
        shown = {name: vars(place) for name, place in places.items() if place is not None}
        counts = {name: getattr(self, name) for name in ("unit", "replayed", "skipped", "strange", "reordered")}
        units = {"repeated": list(self.repeated), "lost": list(self.lost)}
        epochs = {"epochs": list(self.epochs), "orders": [list(pair) for pair in self.orders]}
        unknown = {"undetermined": True} if self.undetermined else {}
        return {**counts, "tail": self.tail, **epochs, **units, **shown, **unknown}


def ledger(timeline: Timeline, reference: Reference) -> Ledger | None:
    """The ledger of a run; None if the reference consumed nothing that was seen, or, with another number of ranks,
    where samples could not be told apart."""
    seen = [steps for _, steps in reference.traces()] + [one.steps for one in timeline.segments]
    unit: Unit = "sample" if not any("" in steps.samples for steps in seen) else "batch"
    known = all("batch" in steps.columns for _, steps in reference.traces())
    found = _counted(timeline, reference, unit) if unit == "sample" or (known and not timeline.resized) else None
    if found is not None and found.codes and rows_tell(timeline, reference):
        return _counted(timeline, reference, "row")
    return found


def _counted(timeline: Timeline, reference: Reference, unit: Unit) -> Ledger:
    """The ledger in units of one kind."""
    got, due = (differences_between_sizes if timeline.resized else differences)(timeline, reference, unit)
    extra, lacking = _surplus(got, due), _surplus(due, got)
    orders = () if timeline.resized else _orders(reference, got, unit)
    if not extra and not lacking:
        places = sorted(got)
        first = DataPosition(*places[0]) if places else None
        steps = len({step for step, _ in places})
        return Ledger(
            unit, reordered=steps, first_reordered=first, epochs=_epochs(reference, places), orders=orders
        )
    tail: Literal["", "replayed", "skipped"] = ""
    if extra and _ends_with(due, lacking, reference.steps):
        tail = "skipped"
    elif lacking and _ends_with(got, extra, timeline.highest()):
        tail = "replayed"
    elif not lacking and min(step for step, _ in got) > reference.steps:
        tail = "replayed"  # all was right up to the end, and then the training went on
    elif extra and lacking and not orders and not timeline.resized:
        tail = consequence(timeline, reference, got, unit, balance=extra.total() - lacking.total())
    known = _steps_of(dict(reference.traces()), unit, set(extra))
    strange = set(extra) - set(known)
    replayed = next(
        (
            DataPosition(*at, _again(known.get(one, ()), at[0]))
            for at in sorted(got)
            for one in got[at]
            if one in extra
        ),
        None,
    )
    skipped = next((DataPosition(*at) for at in sorted(due) for one in due[at] if one in lacking), None)
    return Ledger(
        unit,
        replayed=extra.total(),
        skipped=lacking.total(),
        strange=sum(extra[one] for one in strange),
        undetermined=unit != "row" and bool(strange) and not _only_at_the_end(got, strange),
        tail=tail,
        first_replayed=replayed,
        first_skipped=skipped,
        epochs=_epochs(reference, [*got, *due]),
        repeated=_first(got, extra),
        lost=_first(due, lacking),
        orders=orders,
    )


def _surplus(one: Consumed, other: Consumed) -> Counter[str]:
    """What the one holds more often than the other."""
    return Counter(u for units in one.values() for u in units) - Counter(
        u for units in other.values() for u in units
    )


def _first(consumed: Consumed, units: Counter[str]) -> tuple[str, ...]:
    """The first of these units, in the order of steps and ranks."""
    return tuple(dict.fromkeys(u for at in sorted(consumed) for u in consumed[at] if u in units))[:SHOWN]


def _steps_of(expected: Mapping[int, Steps], unit: str, wanted: set[str]) -> dict[str, list[int]]:
    """The steps at which the reference consumes each of the wanted units, where it does."""
    found: dict[str, list[int]] = {}
    for steps in expected.values():
        for number, value in enumerate(column_of(steps, unit), start=1):
            for one in wanted.intersection(units_of(value, unit)):
                found.setdefault(one, []).append(number)
    return found


def _again(steps: Sequence[int], now: int) -> int | None:
    """That of these steps at which something was consumed that is consumed now: the last before, else the first."""
    return max((step for step in steps if step < now), default=min(steps, default=None))


def _ends_with(consumed: Consumed, units: Counter[str], last_step: int) -> bool:
    """Whether the last steps of the training, as few as hold that many units, hold them all; and not all is off."""
    by_step: dict[int, Counter[str]] = {}
    for (step, _), own in consumed.items():
        by_step.setdefault(step, Counter()).update(own)
    steps = sorted(by_step)
    if not units or not steps or steps[-1] != last_step:
        return False
    last: Counter[str] = Counter()
    count, wanted = 0, units.total()
    while steps and count < wanted:
        newest = by_step[steps.pop()]
        last.update(newest)
        count += newest.total()
    return bool(steps) and not units - last


def _only_at_the_end(got: Consumed, strange: set[str]) -> bool:
    """Whether what the reference never consumes comes after all else that differs: as where data is left out, and a
    training that ends at a number of steps reads on past the reference's last sample."""
    by_step: dict[int, list[str]] = {}
    for (step, _), units in got.items():
        by_step.setdefault(step, []).extend(units)
    steps = sorted(by_step)
    first = next(place for place, step in enumerate(steps) if not strange.isdisjoint(by_step[step]))
    return first > 0 and all(strange.issuperset(by_step[step]) for step in steps[first + 1 :])


def _epochs(reference: Reference, places: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The epochs, from 1, in which these steps lie; none if the reference has but one."""
    starts = reference.epochs
    if len(starts) < 2:
        return ()
    return tuple(sorted({number for step, _ in places if (number := bisect_left(starts, step))}))


def _orders(reference: Reference, got: Consumed, unit: str) -> tuple[tuple[int, int], ...]:
    """The epochs whose wrong steps, on all ranks, are those that another epoch has at the same distance from its
    beginning, each with that other one; where so few are wrong that it may be chance, none."""
    starts = reference.epochs
    if len(starts) < 2:
        return ()
    ends = [*starts[1:], reference.steps]
    wanted = {rank: column_of(steps, unit) for rank, steps in reference.traces()}

    def same(wrong: Consumed, shift: int, end: int) -> bool:
        return all(
            step + shift <= end and units_of(wanted[rank][step + shift - 1], unit) == units
            for (step, rank), units in wrong.items()
        )

    found = []
    for number in _epochs(reference, [*got]):
        begin = starts[number - 1]
        wrong = {at: units for at, units in got.items() if bisect_left(starts, at[0]) == number and units}
        if len({step for step, _ in wrong}) < TELLING or max(step for step, _ in wrong) > reference.steps:
            continue
        others = (other for other in range(1, len(starts) + 1) if other != number)
        found += [(number, other) for other in others if same(wrong, starts[other - 1] - begin, ends[other - 1])][
            :1
        ]
    return tuple(found)
