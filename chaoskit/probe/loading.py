"""`Loading`: what torch's data loaders hand out: where an epoch begins, and which rows of the data set a batch is of.

A batch is known again by the memory that its tensors lie in, whatever dict or slice of it the model is given. One that
was copied on its way (to an accelerator) is not, and then nothing is said of its rows.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaoskit.fingerprint import is_tensor
from chaoskit.probe.contents import leaves

#: So many tensors of batches are known at a time; loaders run ahead of the training by less.
MOST = 256


@dataclass
class _Drawing:
    """What is known of an iterator: the rows of the batches that it has yet to hand out, in their order, and whether
    one that it handed out since it began has been trained on."""

    ahead: deque[tuple[int, ...] | None] = field(default_factory=deque)
    trained: bool = False


@dataclass(frozen=True)
class _Given:
    """A tensor of a batch: its memory, how far apart its rows lie there, and which they are."""

    memory: Any
    stride: int
    rows: tuple[int, ...]


class Loading:
    """Of one rank; the hooks tell it what happens to the iterators of loaders."""

    def __init__(self) -> None:
        self._drawings: weakref.WeakKeyDictionary[Any, _Drawing] = weakref.WeakKeyDictionary()
        self._last: _Drawing | None = None
        self._given: OrderedDict[int, _Given] = OrderedDict()

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
        ahead = self._of(iterator).ahead
        rows = None
        if getattr(iterator, "_num_workers", 0):
            rows = ahead.popleft() if ahead and getattr(iterator, "_in_order", False) else None
        elif ahead:
            rows = ahead.pop()
            ahead.clear()  # what was skipped
        if rows is None:
            return
        weak = sys.modules["torch"].multiprocessing.reductions.StorageWeakRef
        for _, leaf in leaves(batch):
            if is_tensor(leaf) and leaf.dim() and len(leaf) == len(rows) and leaf.is_cpu:
                storage = leaf.untyped_storage()
                self._given.pop(storage.data_ptr(), None)
                self._given[storage.data_ptr()] = _Given(weak(storage), leaf.stride(0), rows)
        while len(self._given) > MOST:
            self._given.popitem(last=False)

    def begins_epoch(self) -> bool:
        """Asked at each training forward: whether it is the first one on what the last iterator hands out."""
        if self._last is None or self._last.trained:
            return False
        self._last.trained = True
        return True

    def rows_of(self, tensors: Iterable[Any]) -> tuple[int, ...] | None:
        """The rows of the data set that these tensors, or one of them, were handed out as; None where that is not
        known."""
        for tensor in tensors:
            if is_tensor(tensor) and tensor.dim() and tensor.is_cpu and not tensor.is_sparse:
                storage = tensor.untyped_storage()
                given = self._given.get(storage.data_ptr())
                if given is not None and not given.memory.expired():
                    return _part(given, tensor)
        return None

    def _of(self, iterator: Any) -> _Drawing:
        return self._drawings.setdefault(iterator, _Drawing())


def _part(given: _Given, tensor: Any) -> tuple[int, ...] | None:
    """The rows of a slice of what was handed out."""
    if tensor.stride(0) != given.stride or not given.stride:
        return given.rows if len(tensor) == len(given.rows) else None
    first = tensor.storage_offset() // given.stride
    rows = given.rows[first : first + len(tensor)]
    return rows if len(rows) == len(tensor) else None


def _rows(iterator: Any, index: Any) -> tuple[int, ...] | None:
    """What a sampler says, where it names rows of a data set one by one."""
    if getattr(iterator, "_dataset_kind", 0) != 0 or not getattr(iterator, "_auto_collation", False):
        return None  # 0 is a data set with rows, 1 a stream
    if not isinstance(index, Sequence) or not all(type(row) is int for row in index):
        return None
    return tuple(index)
