"""`Steps`: the optimizer steps of one rank in one incarnation, kept by columns.

A run of 1,000 ranks and 10,000 steps has a hundred million fingerprints. They are kept, compared and searched a column
at a time; a single `Step` is made when asked for. While a record is read, a column is a list; then it is packed.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from types import MappingProxyType
from typing import TypeVar, cast, overload

from chaoskit.analysis.record.column import Column, Packing, is_constant, places_of

T = TypeVar("T")

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
    the rank had work and did not wait for others; None if that is not known. `thin`: with `--record-every`, of the
    components only those of `recording.AT_EVERY_STEP` were to be recorded; what else is absent is not known.
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
    thin: bool = False


@dataclass
class Steps(Sequence[Step]):
    """Grows by `append`. `numbers` and `times` are ascending; `columns` maps each component to its fingerprints, None
    where a step lacks it, and so does `parts`; `losses`, `samples` and `rows` hold those of a step as one text, divided
    by blanks. `thin` has a 1 for each thin step (see `Step`); it is empty if there is none."""

    numbers: array[int] | range = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    losses: Sequence[str] = field(default_factory=list)
    samples: Sequence[str] = field(default_factory=list)
    columns: dict[str, Sequence[str | None]] = field(default_factory=dict)
    nonfinite: dict[int, tuple[str, ...]] = field(default_factory=dict)
    parts: dict[str, Sequence[str | None]] = field(default_factory=dict)
    rows: Sequence[str] = field(default_factory=list)
    #: Negative where it is not known.
    own: array[float] = field(default_factory=lambda: array("d"))
    thin: bytearray = field(default_factory=bytearray)

    @classmethod
    def joined(cls, parts: Sequence[Steps]) -> Steps:
        """The steps of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        made = cls()
        for part in parts:
            made.nonfinite |= {len(made.times) + place: names for place, names in part.nonfinite.items()}
            made.numbers = array("q", [*made.numbers, *part.numbers])
            made.times, made.own = made.times + part.times, made.own + part.own
        for name in ("losses", "samples", "rows"):
            pieces = [cast("Sequence[str | None]", getattr(part, name)) for part in parts]
            setattr(made, name, Column.joined(pieces, blank=""))
        if any(part.thin for part in parts):
            made.thin = bytearray(b"".join(part.thin or bytes(len(part)) for part in parts))
        made.columns = _joined([part.columns for part in parts], [len(part) for part in parts])
        made.parts = _joined([part.parts for part in parts], [len(part) for part in parts])
        return made

    def append(self, step: Step) -> None:
        """Add a step at the end."""
        if step.nonfinite:
            self.nonfinite[len(self.numbers)] = step.nonfinite
        rows, own = " ".join(step.rows), step.own
        self.add(step.n, step.t, step.losses, step.samples, step.components, step.parts, rows, own, step.thin)

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
        thin: bool = False,
    ) -> None:
        """The same, field by field."""
        place = len(self.numbers)
        if isinstance(self.numbers, range):
            self.numbers = array("q", self.numbers)
        self.numbers.append(n)
        self.times.append(t)
        self.losses = _longer(self.losses, " ".join(losses))
        self.samples = _longer(self.samples, " ".join(samples))
        self.rows = _longer(self.rows, rows)
        self.own.append(-1.0 if own is None else own)
        if thin or self.thin:
            self.thin += bytes(place - len(self.thin)) + bytes([thin])
        _append(self.columns, place, components)
        if parts or self.parts:
            _append(self.parts, place, parts)

    def pack(self, packing: Packing, *, like: Steps | None = None) -> None:
        """Make the columns small, once the last step was added; what equals `like` shares its memory with that. A step
        that is added later costs as much as all that are there."""
        like = like or Steps()
        if self and self.numbers == array("q", numbers := range(self.numbers[0], self.numbers[0] + len(self))):
            self.numbers = numbers
        self.losses = packing.texts(self.losses, like=like.losses)
        self.samples = packing.texts(self.samples, like=like.samples)
        self.rows = packing.texts(self.rows, like=like.rows)
        for own, others in ((self.columns, like.columns), (self.parts, like.parts)):
            for name, column in own.items():
                own[name] = packing.column(column, like=others.get(name))

    @property
    def is_whole(self) -> bool:
        """Whether the steps are numbered from 1 without a gap."""
        numbers = range(1, len(self) + 1)
        return self.numbers == numbers if isinstance(self.numbers, range) else list(self.numbers) == list(numbers)

    def column(self, name: str) -> Sequence[str | None] | None:
        """The fingerprints of a component, or the losses; None if no step has it."""
        if name == LOSS:
            none = not self.losses or (not self.losses[0] and is_constant(self.losses))
            return None if none else self.losses
        return self.columns.get(name)

    def is_thin(self, place: int) -> bool:
        """Whether the step at that place is thin (see `Step`)."""
        return bool(self.thin and self.thin[place])

    def places(self, name: str, fingerprint: str) -> tuple[int, ...]:
        """The places at which a component had this fingerprint."""
        return tuple(places_of(self.columns.get(name, ()), fingerprint))

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
        numbers = self.numbers[start:end]
        if isinstance(numbers, range):
            numbers = range(numbers.start - less, numbers.stop - less)
        elif less:
            numbers = array("q", (number - less for number in numbers))
        return Steps(
            numbers,
            self.times[start:end],
            self.losses[start:end],
            self.samples[start:end],
            {name: column[start:end] for name, column in self.columns.items()},
            {place - start: names for place, names in self.nonfinite.items() if start <= place < end},
            {name: column[start:end] for name, column in self.parts.items()},
            self.rows[start:end],
            self.own[start:end],
            self.thin[start:end],
        )

    def followed_by(self, rest: Steps, *, more: int, later: float) -> Steps:
        """These steps and then those of `rest`, with `more` added to their numbers and `later` to their times."""
        numbers, times = (number + more for number in rest.numbers), (t + later for t in rest.times)
        moved = replace(rest, numbers=array("q", numbers), times=array("d", times))
        joined = Steps.joined([self, moved])
        joined.pack(Packing())
        return joined

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
            self.is_thin(place),
        )


def _joined(
    parts: Sequence[Mapping[str, Sequence[str | None]]], lengths: Sequence[int]
) -> dict[str, Sequence[str | None]]:
    """The columns of parts of these lengths, one behind the other."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: Column.joined([part.get(name) or [None] * n for part, n in zip(parts, lengths, strict=True)])
        for name in names
    }


def _longer(column: Sequence[T], value: T) -> Sequence[T]:
    """A column with one value more: itself, as long as it is a list."""
    if isinstance(column, list):
        column.append(value)
        return column
    return cast("Sequence[T]", cast(Column, column).plus(cast("str | None", value)))


def _append(columns: dict[str, Sequence[str | None]], place: int, values: Mapping[str, str]) -> None:
    """Add what a step has of each column, which holds `place` values so far."""
    for name, value in values.items():
        text = value if type(value) is str else str(value)
        column = columns.get(name)
        if column is None:
            column = columns[intern(name)] = [None] * place
        if type(column) is list:
            column.append(text)
        else:
            columns[name] = _longer(column, text)
    if len(values) < len(columns):
        for name, column in columns.items():
            if len(column) == place:
                columns[name] = _longer(column, None)


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
