"""The rows that a data loader asks of its sampler, in their order: kept in one run, and handed out in another.

A script that lost its position in the data makes an iterator that begins somewhere else. The loader need not ask the
sampler: it is given the rows that the uninterrupted run asked for from there on. `epoch`: each iterator ends where the
epoch of the reference ended. `flow`: iterators end by themselves, and the rows go on from one to the next.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit.protocol.json_lines import LineWriter, decode

#: How many of the last batches are looked through for that of a step; loaders run ahead of the training by less.
AHEAD = 64


def kind_of(iterator: Any) -> str:
    """What tells the loader of an iterator from others: its data set, and how it is sampled. Empty for a stream."""
    if getattr(iterator, "_dataset_kind", 0) != 0:
        return ""
    data_set, sampler = iterator._dataset, iterator._index_sampler
    size = len(data_set) if hasattr(type(data_set), "__len__") else 0
    batch = getattr(sampler, "batch_size", "")
    return f"{type(data_set).__qualname__} of {size} by {type(sampler).__qualname__} {batch}".strip()


def _is_rows(index: Any) -> bool:
    several = index if isinstance(index, (list, tuple)) else [index]
    return all(type(row) is int for row in several)


class RowKeeper:
    """Appends what is asked for, and which of it is trained on."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._lines = LineWriter(path)
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._count = self._asks = 0
        #: The last batches: their number, their iteration, their rows.
        self._last: list[tuple[int, int, str]] = []
        self._trained: set[int] = set()

    def begins(self, iterator: Any) -> None:
        """An iterator that is used for several epochs begins a new one."""
        self._numbers.pop(iterator, None)

    def asked(self, iterator: Any, index: Any) -> None:
        """The sampler has named the rows of the next batch."""
        kind = kind_of(iterator)
        if not kind or not _is_rows(index):
            return
        if iterator not in self._numbers:
            self._count += 1
            self._numbers[iterator] = self._count
        of = self._numbers[iterator]
        self._lines.write({"ask": self._asks, "of": of, "kind": kind, "rows": index})
        rows = index if isinstance(index, (list, tuple)) else [index]
        self._last = [*self._last[1 - AHEAD :], (self._asks, of, " ".join(map(str, rows)))]
        self._asks += 1

    def trained(self, rows: str, position: int) -> None:
        """A step at this position was trained on these rows, separated by blanks."""
        # The earliest that fits, after those of the last step: the same rows may come again.
        place = next(
            (i for i, (_, _, own) in enumerate(self._last) if own and f"{rows} ".startswith(f"{own} ")), None
        )
        if place is None:
            return
        number, of, _ = self._last[place]
        self._lines.write({"position": position, "ask": number, "of": of})
        used = f"{rows} "
        while self._last and self._last[0][0] < number:
            self._last.pop(0)
        while self._last and self._last[0][2] and used.startswith(f"{self._last[0][2]} "):
            used = used[len(self._last[0][2]) + 1 :]
            self._last.pop(0)


@dataclass
class RowOrder:
    """What the reference asked for from a position on. Raises ValueError where that is not known.

    `batches` are the rows of the iteration that was under way, and of each later one that was trained on; `begun` says
    whether the first of them was.
    """

    kind: str
    batches: list[list[Any]]
    begun: bool
    _fed: weakref.WeakKeyDictionary[Any, Iterator[Any]] = field(default_factory=weakref.WeakKeyDictionary)
    _iteration: int = -1

    @classmethod
    def read(cls, content: bytes, position: int) -> RowOrder:
        """The order from the step after this position on."""
        asks: list[dict[str, Any]] = []
        trained: dict[int, dict[str, Any]] = {}
        for line in decode(content):
            if line.error is not None or not isinstance(line.value, dict):
                raise ValueError(f"line {line.number} of the kept rows is damaged")
            if "position" in line.value:
                trained[line.value["position"]] = line.value
            else:
                asks.append(line.value)
        if position not in trained:
            raise ValueError(f"it is not known which batch of the data loader step {position + 1} was trained on")
        first = trained[position]
        kind = asks[first["ask"]]["kind"]
        used = {each["of"] for each in trained.values()}
        if idle := {each["of"] for each in asks if each["kind"] == kind} - used:
            raise ValueError(f"{len(idle)} iterators of a loader of the same kind were not trained on ({kind})")
        found: dict[int, list[Any]] = {}
        for each in asks:
            if each["kind"] == kind and (
                each["of"] > first["of"] or (each["of"] == first["of"] and each["ask"] >= first["ask"])
            ):
                found.setdefault(each["of"], []).append(each["rows"])
        begun = any(each["of"] == first["of"] and each["ask"] < first["ask"] for each in asks)
        return cls(kind, list(found.values()), begun)

    def begins(self, iterator: Any) -> None:
        """An iterator that is used for several epochs begins a new one."""
        self._fed.pop(iterator, None)

    def of_epoch(self, iterator: Any, ask: Callable[[], Any]) -> Any:
        """The next rows; raises StopIteration where the epoch ends. What the sampler draws as an epoch begins, it
        draws."""
        if iterator not in self._fed:
            self._iteration += 1
            at = self._iteration
            if at > 0 or not self.begun:
                _call(ask)
            self._fed[iterator] = iter(self.batches[at] if at < len(self.batches) else [])
        return next(self._fed[iterator])

    def flowing(self, ask: Callable[[], Any]) -> Any:
        """The next rows, in whichever iterator; raises StopIteration where it ends by itself."""
        ask()
        while self.batches and not self.batches[0]:
            self.batches.pop(0)
        if not self.batches:
            raise StopIteration
        return self.batches[0].pop(0)


def _call(ask: Callable[[], Any]) -> None:
    try:
        ask()
    except StopIteration:
        return
