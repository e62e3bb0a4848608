"""`Taking`: which rows of the data a batch is made of, where a job takes them itself.

It sees rows where they are taken: by indexing of a tensor or a memory map, or of a data set. Of each row it keeps a
few numbers. The model's input is recognized by them: row by row where they are equal; else as a whole, where noise was
added or values were scaled, if it correlates with the rows of one taking far better than with others. What is not
recognized has no rows. Nothing here reads an accelerator, which would stall it.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from math import isfinite, sqrt
from typing import Any

from chaoskit.protocol.fingerprint import is_tensor

#: The numbers that are kept of each row; the rows of one taking; its takings, and sources, that are remembered.
NUMBERS, ROWS, GROUPS, SOURCES = 16, 2048, 64, 16
#: The size of a data set that is larger than any other.
LARGEST = 1 << 60
#: Smaller tensors hold no data set.
LEAST = 64
#: A row is compared with the rows of so many takings, if noise was added; it must be so much nearer to one than to all
#: others.
BLOCKS, NEARER = 8, 0.5
#: The least correlation, times the root of how many numbers are compared, that is no chance.
SURE = 4.0
#: So many equal numbers are no chance, if others have less than a third of them.
FEWEST = 8

Row = tuple[int, tuple[float, ...]]
Places = tuple[int, ...]


@dataclass
class _Group:
    """Rows that were taken together: their places in the data, and numbers of each. No more are added once it is
    `closed`."""

    rows: list[Row]
    closed: bool = False

    @cached_property
    def matrix(self) -> Any:
        """The numbers, for calculations."""
        torch = sys.modules["torch"]
        return torch.tensor([own for _, own in self.rows], dtype=torch.float64, device="cpu")


@dataclass
class _Source:
    """What rows are taken of: how many it has, and the takings by the shape of a row."""

    size: int
    groups: dict[tuple[int, ...], deque[_Group]] = field(default_factory=dict)

    def group(self, shape: tuple[int, ...], *, anew: bool) -> _Group:
        """The taking to which a row of that shape is added."""
        known = self.groups.setdefault(shape, deque(maxlen=GROUPS))
        if anew or not known or known[-1].closed or len(known[-1].rows) >= ROWS:
            known.append(_Group([]))
        return known[-1]


@dataclass(frozen=True)
class _Copy:
    """What was copied to an accelerator: its memory there, and the numbers that are kept of each row."""

    memory: Any
    shape: tuple[int, ...]
    version: int
    numbers: list[tuple[float, ...]]


class Taking:
    """The rows that one rank has taken last."""

    def __init__(self) -> None:
        self._sources: OrderedDict[Hashable, _Source] = OrderedDict()
        #: By address, of copies that are not in memory.
        self._copies: OrderedDict[int, _Copy] = OrderedDict()

    def took(self, source: Any, index: Any, result: Any) -> None:
        """A tensor or an array was indexed. Called often, and outside of the model only."""
        if not _holds_data(source):
            return
        first = index[0] if type(index) is tuple and index else index
        if (row := _row(first)) is not None:
            self.item(_name(source), len(source), row % len(source), result)
        elif (rows := _rows(first, len(source))) is not None:
            if type(first) is slice:
                # Of a stream, one row that begins there; of a table, as many rows as it has.
                self.item(_name(source), len(source), rows[0], result)
            self.batch(_name(source), len(source), rows, result)

    def fetched(self, data_set: Any, index: int, item: Any) -> None:
        """An item of a data set was fetched, and not by a loader."""
        tensor = _first_tensor(item)
        if tensor is not None and tensor.is_cpu:
            size = len(data_set) if hasattr(type(data_set), "__len__") else 0
            self.item((type(data_set).__qualname__, size), size, index, tensor.detach())

    def handed_out(self, rows: Sequence[int], batch: Any) -> None:
        """A data loader has handed out a batch of these rows, to which noise may be added."""
        self.batch("loader", LARGEST, rows, batch)

    def copied(self, source: Any, result: Any) -> None:
        """A tensor was copied to another place. Of one that lies on an accelerator afterwards the numbers are kept:
        there they are not read."""
        if not self._sources or not source.is_cpu or result.is_cpu or source.dim() < 2 or not len(source):
            return
        shape = tuple(source.shape[1:])
        if not any(shape in one.groups for one in self._sources.values()):
            return
        storage = result.untyped_storage()
        weak = sys.modules["torch"].multiprocessing.reductions.StorageWeakRef(storage)
        numbers = _numbers(source.detach().reshape(len(source), -1))
        self._copies[storage.data_ptr()] = _Copy(weak, tuple(source.shape), result._version, numbers)
        if len(self._copies) > GROUPS:
            self._copies.popitem(last=False)

    def item(self, name: Hashable, size: int, row: int, result: Any) -> None:
        """One row was taken."""
        shape = tuple(result.shape)
        numbers = _numbers(result.reshape(1, -1)) if shape else []
        if numbers and len(numbers[0]) > 1:
            self._source(name, size).group(shape, anew=False).rows.append((row, numbers[0]))

    def batch(self, name: Hashable, size: int, rows: Sequence[int], result: Any) -> None:
        """Several rows were taken at once."""
        shape = tuple(result.shape)
        if len(shape) < 2 or shape[0] != len(rows) or not rows:
            return
        numbers = _numbers(result.reshape(len(rows), -1))
        if len(numbers[0]) > 1:
            group = self._source(name, size).group(shape[1:], anew=True)
            group.rows, group.closed = list(zip(rows, numbers, strict=True)), True

    def origin(self, tensors: Iterable[Any]) -> tuple[int, ...] | None:
        """The rows of the model's input; None if they are not known. What is taken from now on is taken for another."""
        for source in self._sources.values():
            for groups in source.groups.values():
                groups[-1].closed = True
        return next((rows for each in tensors if (rows := self._recognized(each)) is not None), None)

    def _source(self, name: Hashable, size: int) -> _Source:
        source = self._sources.setdefault(name, _Source(size))
        self._sources.move_to_end(name)
        if len(self._sources) > SOURCES:
            self._sources.popitem(last=False)
        return source

    def _recognized(self, tensor: Any) -> tuple[int, ...] | None:
        if not self._sources or not is_tensor(tensor) or tensor.dim() < 2 or not len(tensor):
            return None
        shape = tuple(tensor.shape[1:])
        # The largest first: a batch that was indexed once more is smaller than the data.
        known = sorted((one for one in self._sources.values() if shape in one.groups), key=lambda one: -one.size)
        numbers = self._numbers(tensor) if known else None
        for source in known if numbers else ():
            groups = source.groups[shape]
            assert numbers is not None
            if (rows := _equal(groups, numbers) or _similar(groups, numbers)) is not None:
                return rows
        return None


    def _numbers(self, tensor: Any) -> list[tuple[float, ...]] | None:
        """The numbers that are kept of each row of the model's input; None where they are not known."""
        if tensor.is_cpu:
            return _numbers(tensor.reshape(len(tensor), -1))
        copy = self._copies.get(tensor.untyped_storage().data_ptr())
        if copy is None or copy.memory.expired():
            return None
        same = (copy.shape, copy.version) == (tuple(tensor.shape), tensor._version)
        return copy.numbers if same else None


def _first_tensor(item: Any) -> Any:
    """The data of an item of a data set: itself, or the first tensor in it; None if it has none."""
    if is_tensor(item):
        return item
    values = item.values() if isinstance(item, dict) else item if isinstance(item, (list, tuple)) else ()
    return next((found for value in values if (found := _first_tensor(value)) is not None), None)


def _holds_data(source: Any) -> bool:
    if is_tensor(source):
        return bool(source.dim() and source.numel() >= LEAST and source.is_cpu and not source.requires_grad)
    return bool(source.ndim and source.size >= LEAST)


def _name(source: Any) -> Hashable:
    """What is the same each time that this data is indexed. A memory map may be opened for each batch anew."""
    if is_tensor(source):
        return source.data_ptr(), tuple(source.shape)
    return str(getattr(source, "filename", "")), getattr(source, "offset", 0), tuple(source.shape)


def _row(index: Any) -> int | None:
    """The one row that an index names."""
    if type(index) is int:
        return index
    single = getattr(index, "ndim", None) == 0 and "int" in str(getattr(index, "dtype", ""))
    return int(index) if single else None


def _rows(index: Any, size: int) -> Sequence[int] | None:
    """The rows that an index names; None where it names all of them, or none one by one."""
    if type(index) is slice:
        found: Sequence[int] = range(*index.indices(size))
        return found if 0 < len(found) < size and len(found) <= ROWS else None
    if type(index) is list:
        rows = index if all(type(row) is int for row in index) else None
    elif is_tensor(index):
        whole = index.dim() and index.is_cpu and not index.is_floating_point() and index.element_size() > 1
        rows = index.reshape(len(index), -1)[:, 0].tolist() if whole and index.numel() else None
    elif getattr(getattr(index, "dtype", None), "kind", "") in ("i", "u") and index.ndim and index.size:
        rows = index.reshape(len(index), -1)[:, 0].tolist()
    else:
        return None
    return [row % size for row in rows] if rows is not None and len(rows) <= ROWS else None


def _numbers(rows: Any) -> list[tuple[float, ...]]:
    """The numbers that are kept of each row of a matrix, a tensor or an array."""
    step = max(1, rows.shape[1] // NUMBERS)
    return [tuple(row) for row in rows[:, ::step][:, :NUMBERS].tolist()]


def _equal(groups: Sequence[_Group], numbers: Sequence[tuple[float, ...]]) -> tuple[int, ...] | None:
    """The rows that have exactly these numbers, if each has one; those that were taken last. None where two rows that
    were taken together have the same numbers."""
    known: dict[tuple[float, ...], int] = {}
    for group in reversed(groups):
        alike: dict[tuple[float, ...], int] = {}
        for row, own in group.rows:
            if alike.setdefault(own, row) != row and own in numbers:
                return None
        known = {**alike, **known}
        if all(own in known for own in numbers):
            return tuple(known[own] for own in numbers)
    return None


def _similar(groups: Sequence[_Group], numbers: Sequence[tuple[float, ...]]) -> tuple[int, ...] | None:
    """The rows of the taking, or of the part of one, to which these are far nearer than to any other: they have more
    numbers in common, or correlate better."""
    torch, count = sys.modules["torch"], len(numbers)
    given = torch.tensor(numbers, dtype=torch.float64, device="cpu")
    found: list[tuple[tuple[int, ...], float, float]] = []
    for group, start in _blocks(groups, count):
        block = group.matrix[start : start + count]
        rows = tuple(row for row, _ in group.rows[start : start + count])
        found.append((rows, *_nearness(given, block)))
        if count > 1:
            # The same rows, each in another's place.
            found.append(((), *_nearness(given, block.roll(1, 0))))
    better = partial(_correlates_better, count=given.numel())
    return _nearest([(rows, own) for rows, own, _ in found], _shares_more) or _nearest(
        [(rows, own) for rows, _, own in found], better
    )


def _nearest(found: Sequence[tuple[Places, float]], is_far: Callable[[float, float], bool]) -> Places | None:
    """The rows that are far nearer than all others; None where there are none, or nothing to compare with."""
    rows, best = max(found, key=lambda one: one[1], default=((), 0.0))
    others = [own for other, own in found if other != rows]
    return rows if rows and others and is_far(best, max(others)) else None


def _nearness(one: Any, other: Any) -> tuple[float, float]:
    return float((one == other).sum()), _correlation(one, other)


def _shares_more(best: float, other: float) -> bool:
    """Whether so many numbers are equal by no chance."""
    return best >= FEWEST and best > 3 * other


def _correlates_better(best: float, other: float, *, count: int) -> bool:
    return best * sqrt(count) > SURE and 1.0 - best < NEARER * (1.0 - other)


def _blocks(groups: Sequence[_Group], count: int) -> Iterator[tuple[_Group, int]]:
    """As many rows as were given, taken one after the other: the taking and the first place in it, the last first."""
    places = (
        (group, start)
        for group in reversed(groups)
        if len(group.rows) >= count
        for start in sorted({*range(0, len(group.rows) - count + 1, count), len(group.rows) - count})
    )
    return islice(places, BLOCKS)


def _correlation(one: Any, other: Any) -> float:
    """Pearson's; -1 where one of them does not vary, or is not finite."""
    own, its = one - one.mean(), other - other.mean()
    found = float((own * its).sum() / (own.square().sum() * its.square().sum()).sqrt())
    return found if isfinite(found) else -1.0
