"""`Loading`: the batches of torch's data loaders: where an epoch begins, and which rows of the data set each holds.

A batch that the model gets is recognized by the memory of its tensors, also in another dict or as a slice; a copy in
memory is recognized by its contents, and one on an accelerator, which is not read, by the copying that made it.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaoskit.probe.taking import Taking
from chaoskit.protocol.fingerprint import is_record, is_tensor, memory, of_bytes

#: The number of batches that are remembered; loaders run ahead of the training by less.
MOST = 64
#: The number of bytes at either end of a tensor that identify it.
EDGE = 1 << 16


@dataclass
class _Drawing:
    """An iterator: the rows of its batches that are still to come, in their order, and whether a batch since its
    beginning was `trained` on."""

    ahead: deque[tuple[int, ...] | None] = field(default_factory=deque)
    trained: bool = False


@dataclass(frozen=True)
class _Given:
    """A tensor of a batch: its memory, its offset there, and the distance of its rows. `version`: the one of a buffer
    that a batch was copied to; what is written to it later may be another batch."""

    memory: Any
    start: int
    stride: int
    batch: int
    version: int | None = None


@dataclass(frozen=True)
class _Batch:
    """A batch: its iterator, its rows if they are known, and the addresses and contents by which it is recognized."""

    drawing: _Drawing
    rows: tuple[int, ...] | None
    addresses: set[int] = field(default_factory=set)
    contents: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class RowOrigin:
    """The origin of a model's input: whether a loader `handed` it out, its `rows` in the data set (None if unknown),
    and whether it is the first of an epoch."""

    handed: bool = False
    rows: tuple[int, ...] | None = None
    first: bool = False


class Loading:
    """The loaders of one rank; the hooks report what their iterators do. `taking` is told the rows of their batches."""

    def __init__(self, taking: Taking | None = None) -> None:
        self._taking = taking or Taking()
        self._drawings: weakref.WeakKeyDictionary[Any, _Drawing] = weakref.WeakKeyDictionary()
        self._last: _Drawing | None = None
        self._batches: OrderedDict[int, _Batch] = OrderedDict()
        self._count = 0
        #: By address, and by contents: the batches.
        self._given: dict[int, _Given] = {}
        self._alike: dict[Any, set[int]] = {}

    def begins(self, iterator: Any) -> None:
        """An iterator that is used for several epochs begins a new one."""
        self._drawings.pop(iterator, None)

    def asks(self, iterator: Any, index: Any) -> None:
        """An iterator has asked its sampler for the rows of its next batch."""
        self._of(iterator).ahead.append(_rows(iterator, index))

    def draws(self, iterator: Any) -> None:
        """A batch is requested from the iterator. A validation loader may begin in the middle of an epoch: only an
        iterator whose batch is trained on counts."""
        self._last = self._of(iterator)

    def hands_out(self, iterator: Any, batch: Any) -> None:
        """The iterator returns a batch."""
        drawing = self._of(iterator)
        rows = None
        if getattr(iterator, "_num_workers", 0):
            rows = drawing.ahead.popleft() if drawing.ahead and getattr(iterator, "_in_order", False) else None
        elif drawing.ahead:
            rows = drawing.ahead.pop()
            drawing.ahead.clear()  # what was skipped
        self._count += 1
        own = self._batches[self._count] = _Batch(drawing, rows)
        for leaf, array in _tensors(batch):
            if _has_rows(leaf) and (rows is None or len(leaf) == len(rows)):
                storage = leaf.untyped_storage()
                alive = _weak(storage) if array is None else _WeakArray(array)
                given = _Given(alive, leaf.storage_offset(), leaf.stride(0), self._count)
                self._given[storage.data_ptr()] = given
                own.addresses.add(storage.data_ptr())
                if rows and leaf.is_cpu:
                    self._taking.handed_out(rows, leaf.detach())
                if (key := _contents(leaf)) is not None:
                    self._alike.setdefault(key, set()).add(self._count)
                    own.contents.append(key)
        while len(self._batches) > MOST:
            self._forget(next(iter(self._batches)))

    def _forget(self, batch: int) -> None:
        gone = self._batches.pop(batch)
        for at in gone.addresses:
            if at in self._given and self._given[at].batch == batch:  # another one may lie there now
                del self._given[at]
        for key in set(gone.contents):
            self._alike[key].discard(batch)
            if not self._alike[key]:
                del self._alike[key]

    def origin(self, tensors: Sequence[Any]) -> RowOrigin:
        """The origin of the model's input; called once for each training forward."""
        known = [tensor for tensor in tensors if _has_rows(tensor)]
        for tensor in known:
            if (given := self._at(tensor)) is not None:
                batch = self._batches[given.batch]
                rows = _part(given, tensor, batch.rows) if batch.rows is not None else None
                return RowOrigin(True, rows, _begins(batch.drawing))
        if not (common := self._like(known)):
            return RowOrigin(first=_begins(self._last))
        rows_of = {self._batches[each].rows for each in common}
        return RowOrigin(
            True, rows_of.pop() if len(rows_of) == 1 else None, _begins(self._batches[max(common)].drawing)
        )

    def copied(self, source: Any, result: Any, *, into: bool) -> None:
        """A tensor was copied: to another one that was there before (`into`), or to a new one, as to an accelerator."""
        self._taking.copied(source, result)
        if not _has_rows(result):
            return
        at = result.untyped_storage().data_ptr()
        given = self._at(source) if _has_rows(source) else None
        if given is not None and source.stride(0) == given.stride and given.stride:
            batch, first = given.batch, (source.storage_offset() - given.start) // given.stride
        elif (alike := self._like([source])) and len(alike) == 1:
            batch, first = alike.pop(), 0
        else:
            self._given.pop(at, None)
            return
        memory = _weak(result.untyped_storage())
        start = result.storage_offset() - first * result.stride(0)
        version = result._version if into else None
        self._given[at] = _Given(memory, start, result.stride(0), batch, version)
        self._batches[batch].addresses.add(at)

    def _at(self, tensor: Any) -> _Given | None:
        """The tensor of a batch in whose memory this one lies."""
        given = self._given.get(tensor.untyped_storage().data_ptr())
        if given is None or given.memory.expired():
            return None
        return given if given.version in (None, tensor._version) else None

    def _like(self, tensors: Sequence[Any]) -> set[int]:
        """The batches that hold the same as these tensors."""
        shapes = {(shape, kind) for shape, kind, *_ in self._alike}
        asked = (each for each in tensors if (tuple(each.shape), str(each.dtype)) in shapes)
        found = [own for each in asked if (own := self._alike.get(_contents(each)))]
        # A mask may be the same in every batch; what is given together is of one.
        return set.intersection(*found) if found else set()

    def _of(self, iterator: Any) -> _Drawing:
        return self._drawings.setdefault(iterator, _Drawing())


def _weak(storage: Any) -> Any:
    """A reference to memory that does not keep it alive."""
    return sys.modules["torch"].multiprocessing.reductions.StorageWeakRef(storage)


class _WeakArray:
    """A reference to a numpy array that does not keep it alive."""

    def __init__(self, array: Any) -> None:
        self._array = weakref.ref(array)

    def expired(self) -> bool:
        return self._array() is None


def _tensors(batch: Any, above: tuple[int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """The tensors in whatever a data set gives, and, as tensors and beside themselves, its arrays of numbers: a job
    makes tensors of them."""
    if is_tensor(batch):
        yield batch, None
    elif type(batch).__module__ == "numpy":
        if getattr(batch, "ndim", 0) and batch.dtype.kind in "biufc" and batch.flags.writeable:
            yield sys.modules["torch"].from_numpy(batch), batch
    elif id(batch) not in above:
        for item in _inside(batch):
            yield from _tensors(item, (*above, id(batch)))


def _inside(value: Any) -> Iterable[Any]:
    """What a container, or an object with data, holds."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return value
    return list(vars(value).values()) if is_record(value) else ()


def _begins(drawing: _Drawing | None) -> bool:
    """Whether this is the first batch of the iterator that is trained on."""
    if drawing is None or drawing.trained:
        return False
    drawing.trained = True
    return True


def _has_rows(value: Any) -> bool:
    """Whether it is a tensor with memory and a first dimension."""
    strided = is_tensor(value) and value.layout is sys.modules["torch"].strided
    return bool(strided and not value.is_meta and value.dim())


def _contents(tensor: Any) -> tuple[Any, ...] | None:
    """What identifies a tensor in memory: its shape and the bytes at its ends; None if it is not contiguous."""
    if not tensor.is_cpu or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return None
    view = memory(tensor.data_ptr(), tensor.nbytes) if tensor.nbytes else b""
    return tuple(tensor.shape), str(tensor.dtype), of_bytes(view[:EDGE]), of_bytes(view[-EDGE:])


def _part(given: _Given, tensor: Any, rows: tuple[int, ...]) -> tuple[int, ...] | None:
    """The rows of a slice of a batch."""
    if tensor.stride(0) != given.stride or not given.stride:
        return rows if len(tensor) == len(rows) else None
    first = (tensor.storage_offset() - given.start) // given.stride
    part = rows[first : first + len(tensor)] if first >= 0 else ()
    return part if len(part) == len(tensor) else None


def _rows(iterator: Any, index: Any) -> tuple[int, ...] | None:
    """The rows that a sampler names; None where it does not name rows of a data set one by one."""
    if getattr(iterator, "_dataset_kind", 0) != 0 or not getattr(iterator, "_auto_collation", False):
        return None  # 0 is a data set with rows, 1 a stream
    if not isinstance(index, Sequence) or not all(type(row) is int for row in index):
        return None
    return tuple(index)
