"""`Loading`: what torch's data loaders hand out: where an epoch begins, and which rows of the data set a batch is of.

A batch is known again by the memory that its tensors lie in, whatever dict or slice of it the model is given; one that
was copied on its way, by its contents. One that was copied to an accelerator is not: nothing is said of its rows.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chaoskit.fingerprint import is_tensor, memory, of_bytes
from chaoskit.probe.contents import leaves

#: So many batches are known at a time; loaders run ahead of the training by less.
MOST = 64
#: So many bytes at either end of a tensor tell it from others.
EDGE = 1 << 16


@dataclass
class _Drawing:
    """What is known of an iterator: the rows of the batches that it has yet to hand out, in their order, and whether
    one that it handed out since it began has been trained on."""

    ahead: deque[tuple[int, ...] | None] = field(default_factory=deque)
    trained: bool = False


@dataclass(frozen=True)
class _Given:
    """A tensor of a batch: its memory, where in it it begins, and how far apart its rows lie there."""

    memory: Any
    start: int
    stride: int
    batch: int


@dataclass(frozen=True)
class _Batch:
    """Which iterator handed it out, and the rows that it is of, where those are known; by which addresses and contents
    it is known again."""

    drawing: _Drawing
    rows: tuple[int, ...] | None
    addresses: list[int] = field(default_factory=list)
    contents: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Origin:
    """Where what a model is given comes from: whether a loader has `handed` it out, as which `rows` of the data set
    (None where that is not known), and whether it is the first of an epoch."""

    handed: bool = False
    rows: tuple[int, ...] | None = None
    first: bool = False


class Loading:
    """Of one rank; the hooks tell it what happens to the iterators of loaders."""

    def __init__(self) -> None:
        self._drawings: weakref.WeakKeyDictionary[Any, _Drawing] = weakref.WeakKeyDictionary()
        self._last: _Drawing | None = None
        self._batches: OrderedDict[int, _Batch] = OrderedDict()
        self._count = 0
        #: By address, and by contents: the batches.
        self._given: dict[int, _Given] = {}
        self._alike: dict[Any, set[int]] = {}

    def begins(self, iterator: Any) -> None:
        """An iterator that outlives its epoch begins anew."""
        self._drawings.pop(iterator, None)

    def asks(self, iterator: Any, index: Any) -> None:
        """An iterator has asked its sampler for the rows of a batch, which it hands out after those before."""
        self._of(iterator).ahead.append(_rows(iterator, index))

    def draws(self, iterator: Any) -> None:
        """A batch is drawn from it. A validation loader may begin in the middle of an epoch: what counts is whose batch
        is trained on."""
        self._last = self._of(iterator)

    def hands_out(self, iterator: Any, batch: Any) -> None:
        """The batch that was drawn."""
        drawing = self._of(iterator)
        rows = None
        if getattr(iterator, "_num_workers", 0):
            rows = drawing.ahead.popleft() if drawing.ahead and getattr(iterator, "_in_order", False) else None
        elif drawing.ahead:
            rows = drawing.ahead.pop()
            drawing.ahead.clear()  # what was skipped
        self._count += 1
        own = self._batches[self._count] = _Batch(drawing, rows)
        weak = sys.modules["torch"].multiprocessing.reductions.StorageWeakRef
        for _, leaf in leaves(batch):
            if _has_rows(leaf) and (rows is None or len(leaf) == len(rows)):
                storage = leaf.untyped_storage()
                given = _Given(weak(storage), leaf.storage_offset(), leaf.stride(0), self._count)
                self._given[storage.data_ptr()] = given
                own.addresses.append(storage.data_ptr())
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

    def origin(self, tensors: Sequence[Any]) -> Origin:
        """Asked once at each training forward, of what the model is given."""
        known = [tensor for tensor in tensors if _has_rows(tensor)]
        for tensor in known:
            given = self._given.get(tensor.untyped_storage().data_ptr())
            if given is not None and not given.memory.expired():
                batch = self._batches[given.batch]
                rows = _part(given, tensor, batch.rows) if batch.rows is not None else None
                return Origin(True, rows, _begins(batch.drawing))
        found = [own for tensor in known if (own := self._alike.get(_contents(tensor)))]
        # A mask may be the same in every batch; what is given together is of one.
        common = set.intersection(*found) if found else set()
        if not common:
            return Origin(first=_begins(self._last))
        rows_of = {self._batches[each].rows for each in common}
        return Origin(
            True, rows_of.pop() if len(rows_of) == 1 else None, _begins(self._batches[max(common)].drawing)
        )

    def _of(self, iterator: Any) -> _Drawing:
        return self._drawings.setdefault(iterator, _Drawing())


def _begins(drawing: _Drawing | None) -> bool:
    """Whether nothing that was drawn there has been trained on before."""
    if drawing is None or drawing.trained:
        return False
    drawing.trained = True
    return True


def _has_rows(value: Any) -> bool:
    """Whether it is a tensor in memory with a first dimension."""
    return bool(is_tensor(value) and value.layout is sys.modules["torch"].strided and value.is_cpu and value.dim())


def _contents(tensor: Any) -> tuple[Any, ...] | None:
    """What tells a tensor from others, by its shape and the numbers at its ends; None for one that lies scattered."""
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return None
    view = memory(tensor.data_ptr(), tensor.nbytes) if tensor.nbytes else b""
    return tuple(tensor.shape), str(tensor.dtype), of_bytes(view[:EDGE]), of_bytes(view[-EDGE:])


def _part(given: _Given, tensor: Any, rows: tuple[int, ...]) -> tuple[int, ...] | None:
    """The rows of a slice of what was handed out."""
    if tensor.stride(0) != given.stride or not given.stride:
        return rows if len(tensor) == len(rows) else None
    first = (tensor.storage_offset() - given.start) // given.stride
    part = rows[first : first + len(tensor)] if first >= 0 else ()
    return part if len(part) == len(tensor) else None


def _rows(iterator: Any, index: Any) -> tuple[int, ...] | None:
    """What a sampler says, where it names rows of a data set one by one."""
    if getattr(iterator, "_dataset_kind", 0) != 0 or not getattr(iterator, "_auto_collation", False):
        return None  # 0 is a data set with rows, 1 a stream
    if not isinstance(index, Sequence) or not all(type(row) is int for row in index):
        return None
    return tuple(index)
