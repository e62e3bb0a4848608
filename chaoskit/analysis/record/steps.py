"""`Steps`: the optimizer steps of one rank in one incarnation, kept by columns.

A run of 256 ranks and 5,000 steps has ten million fingerprints. Kept as one list a component, of strings that equal
values share, they are compared and searched a column at a time; a single `Step` is made when asked for.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from types import MappingProxyType
from typing import overload

#: The name of the losses where they stand among the components.
LOSS = "loss"
#: As `float.hex` writes it.
_HEX = re.compile(r"-?\b0x[01]\.[0-9a-f]+p[+-]\d{1,4}\b")


@dataclass(frozen=True)
class Step:
    """One optimizer step of one rank, as it was about to be taken.

    `n` counts from 1 in the incarnation, `t` is in seconds. `losses` are `float.hex` of each backward since the step
    before. `components` maps model, buffers, optimizer, options, lr, scaler, ema, `rng.<stream>` and batch to
    fingerprints; what the job does not have is absent. `samples` are the fingerprints of the samples consumed (none
    if they could not be told apart), `rows` their places in the data set (none if those are not known), `nonfinite`
    the components that held a value that is not finite. `parts` maps components that are sharded to what this rank
    holds of them (see `shards`), as far as that was asked for. `own` is for how many seconds since the step before
    the rank had work and did not wait for others; None if that is not known.
    """

    n: int
    t: float
    losses: tuple[str, ...]
    components: Mapping[str, str]
    samples: tuple[str, ...] = ()
    nonfinite: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    own: float | None = None


@dataclass
class Steps(Sequence[Step]):
    """Grows by `append`. `numbers` and `times` are ascending; `columns` maps each component to its fingerprints, None
    where a step lacks it, and so does `parts`; `losses`, `samples` and `rows` hold those of a step as one text, divided
    by blanks."""

    numbers: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    losses: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    columns: dict[str, list[str | None]] = field(default_factory=dict)
    nonfinite: dict[int, tuple[str, ...]] = field(default_factory=dict)
    parts: dict[str, list[str | None]] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    #: Negative where it is not known.
    own: array[float] = field(default_factory=lambda: array("d"))

    def append(self, step: Step) -> None:
        """Add a step at the end."""
        if step.nonfinite:
            self.nonfinite[len(self.numbers)] = step.nonfinite
        rows, own = " ".join(step.rows), step.own
        self.add(step.n, step.t, step.losses, step.samples, step.components, step.parts, rows, own)

    def add(
        self,
        n: int,
        t: float,
        losses: Iterable[str],
        samples: Iterable[str],
        components: Mapping[str, str],
        parts: Mapping[str, str] = MappingProxyType({}),
        rows: str = "",
        own: float | None = None,
    ) -> None:
        """The same, field by field."""
        place = len(self.numbers)
        self.numbers.append(n)
        self.times.append(t)
        self.losses.append(intern(" ".join(losses)))
        self.samples.append(intern(" ".join(samples)))
        self.rows.append(intern(rows))
        self.own.append(-1.0 if own is None else own)
        _append(self.columns, place, components)
        if parts or self.parts:
            _append(self.parts, place, parts)

    def column(self, name: str) -> Sequence[str | None] | None:
        """The fingerprints of a component, or the losses; None if no step has it."""
        if name == LOSS:
            return self.losses if any(self.losses) else None
        return self.columns.get(name)

    def places(self, name: str, fingerprint: str) -> tuple[int, ...]:
        """The places at which a component had this fingerprint."""
        return tuple(place for place, value in enumerate(self.columns.get(name, ())) if value == fingerprint)

    def until(self, t: float) -> int:
        """How many steps were about to be taken by time `t`, inclusive."""
        return bisect_right(self.times, t)

    def before(self, t: float) -> int:
        """How many were about to be taken before time `t`."""
        return bisect_left(self.times, t)

    def past(self, n: int) -> int:
        """The place of the first step whose number is greater than `n`."""
        return bisect_right(self.numbers, n)

    def part(self, start: int, end: int, *, less: int = 0) -> Steps:
        """The steps from place `start` to `end` (exclusive), their numbers lowered by `less`."""
        return Steps(
            array("q", (number - less for number in self.numbers[start:end])),
            self.times[start:end],
            self.losses[start:end],
            self.samples[start:end],
            {name: column[start:end] for name, column in self.columns.items()},
            {place - start: names for place, names in self.nonfinite.items() if start <= place < end},
            {name: column[start:end] for name, column in self.parts.items()},
            self.rows[start:end],
            self.own[start:end],
        )

    def followed_by(self, rest: Steps, *, more: int, later: float) -> Steps:
        """These steps and then those of `rest`, with `more` added to their numbers and `later` to their times."""
        count = len(self)
        return Steps(
            self.numbers + array("q", (number + more for number in rest.numbers)),
            self.times + array("d", (t + later for t in rest.times)),
            self.losses + rest.losses,
            self.samples + rest.samples,
            _joined(self.columns, count, rest.columns, len(rest)),
            {**self.nonfinite, **{place + count: names for place, names in rest.nonfinite.items()}},
            _joined(self.parts, count, rest.parts, len(rest)),
            self.rows + rest.rows,
            self.own + rest.own,
        )

    def runs(self) -> Iterator[tuple[int, int]]:
        """The pieces, as places from and to (exclusive), in which the numbers follow one another."""
        start = 0
        count = len(self.numbers)
        while start < count:
            end = count
            if self.numbers[-1] - self.numbers[start] != count - 1 - start:
                end = next(
                    i for i in range(start + 1, count + 1)
                    if i == count or self.numbers[i] != self.numbers[i - 1] + 1
                )  # fmt: skip
            yield start, end
            start = end

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> Step: ...
    @overload
    def __getitem__(self, place: slice) -> list[Step]: ...
    def __getitem__(self, place: int | slice) -> Step | list[Step]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        return Step(
            self.numbers[place],
            self.times[place],
            tuple(self.losses[place].split()),
            {name: value for name, column in self.columns.items() if (value := column[place]) is not None},
            tuple(self.samples[place].split()),
            self.nonfinite.get(place, ()),
            {name: value for name, column in self.parts.items() if (value := column[place]) is not None},
            tuple(self.rows[place].split()),
            self.own[place] if self.own[place] >= 0 else None,
        )


def _joined(
    one: Mapping[str, list[str | None]], length: int, other: Mapping[str, list[str | None]], further: int
) -> dict[str, list[str | None]]:
    names = dict.fromkeys([*one, *other])
    return {name: one.get(name, [None] * length) + other.get(name, [None] * further) for name in names}


def _append(columns: dict[str, list[str | None]], place: int, values: Mapping[str, str]) -> None:
    """Add what a step has of each column, which holds `place` values so far."""
    for name, value in values.items():
        column = columns.get(name)
        if column is None:
            column = columns[intern(name)] = [None] * place
        column.append(intern(value if type(value) is str else str(value)))
    if len(values) < len(columns):
        for column in columns.values():
            if len(column) == place:
                column.append(None)


def values(losses: str) -> tuple[float, ...] | None:
    """The losses of a step as numbers; None if one of them is no scalar."""
    try:
        return tuple(map(float.fromhex, losses.split()))
    except (ValueError, OverflowError):
        return None


def readable(text: str) -> str:
    """Replace hexadecimal floats ('0x1.8p+1') by decimals ('3'), with enough digits to distinguish them."""
    exact = {one: number[0] for one in _HEX.findall(text) if (number := values(one))}
    digits = 6
    while len({f"{value:.{digits}g}" for value in exact.values()}) < len(set(exact.values())):
        digits += 1
    short = {one: f"{value:.{digits}g}" for one, value in exact.items()}
    return _HEX.sub(lambda found: short.get(found[0], found[0]), text)


def finite(losses: str) -> bool:
    """Whether none of the losses is infinite or not a number; of one that is no scalar nothing is known."""
    return all(map(math.isfinite, values(losses) or ()))


def apart(one: float, other: float) -> float:
    """How far two losses are apart, relative to the larger; infinity where one of them is no number."""
    if one == other:
        return 0.0
    both = math.isfinite(one) and math.isfinite(other)
    return abs(one - other) / max(abs(one), abs(other)) if both else math.inf


def furthest(losses: str, others: str) -> float | None:
    """The largest such distance between the losses of two steps; None if they cannot be compared."""
    own, wanted = values(losses), values(others)
    if own is None or wanted is None or len(own) != len(wanted):
        return None if losses != others else 0.0
    return max(map(apart, own, wanted), default=0.0)


def first_apart(one: Sequence[str | None], other: Sequence[str | None], *, limit: int = 1) -> list[int]:
    """The first places at which two columns of equal length differ, at most `limit` of them."""
    found: list[int] = []
    size = 256
    for start in range(0, len(one), size):
        a, b = one[start : start + size], other[start : start + size]
        if a != b:
            found += [start + i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
            if len(found) >= limit:
                break
    return found[:limit]
