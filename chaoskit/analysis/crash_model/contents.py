"""What a file holds, made of the bytes that a journal has kept, and a digest of it that a write changes at small cost.

The digest is a sum over blocks, so that a write costs what the blocks cost that it touches. Bytes decide and nothing
else: a hole and zeros that were written are the same, and how a content was put together does not matter.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import xxhash

from chaoskit.protocol.io_journal import Journal, JournalError

BLOCK = 1 << 16
SUMS = 1 << 128


class Extent(NamedTuple):
    """The bytes from `start` up to `end` of a file are those at `at` of the journal's data."""

    start: int
    end: int
    at: int


@dataclass(frozen=True)
class File:
    """A regular file. Between its extents, which are in order and apart, there are zeros."""

    mode: int = 0o644
    size: int = 0
    extents: tuple[Extent, ...] = ()
    total: int = 0

    @cached_property
    def digest(self) -> int:
        """The same for two files exactly when they hold the same bytes and have the same mode."""
        return xxhash.xxh3_128_intdigest(b"file %o %d %d" % (self.mode, self.size, self.total))


class Contents:
    """Changes files, over the bytes of one journal."""

    def __init__(self, journal: Journal) -> None:
        self._blocks: dict[tuple[int, tuple[Extent, ...]], int] = {}
        try:
            with (journal.directory / "data").open("rb") as file:
                self.size = file.seek(0, 2)
                self._bytes = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) if self.size else b"")
        except OSError as error:
            raise JournalError(f"the bytes of {journal.directory} cannot be read: {error}") from error

    def write(self, file: File, offset: int, size: int, at: int) -> File:
        """The file once `size` bytes, those at `at` of the journal's data, have been written at `offset`."""
        if not size:
            return file
        if at + size > self.size:
            raise JournalError(
                f"the journal's data end at {self.size}, and a write has its bytes up to {at + size}"
            )
        return self._put(file, offset, offset + size, at, max(file.size, offset + size))

    def resize(self, file: File, size: int) -> File:
        """The file with `size` bytes: cut, or with zeros at its end."""
        if size >= file.size:
            return replace(file, size=size) if size > file.size else file
        return self._put(file, size, file.size, None, size)

    def pieces(self, file: File) -> Iterator[tuple[int, memoryview]]:
        """The bytes that are there, each piece with its offset; elsewhere are zeros."""
        for start, end, at in file.extents:
            yield start, self._bytes[at : at + end - start]

    def read(self, file: File) -> bytes:
        """The whole content."""
        found = bytearray(file.size)
        for start, piece in self.pieces(file):
            found[start : start + len(piece)] = piece
        return bytes(found)

    def _put(self, file: File, start: int, end: int, at: int | None, size: int) -> File:
        extents = _spliced(file.extents, start, end, at)
        total = file.total - self._sum(file.extents, start, end) + self._sum(extents, start, end)
        return File(file.mode, size, extents, total % SUMS)

    def _sum(self, extents: tuple[Extent, ...], start: int, end: int) -> int:
        """What the blocks that this range touches add to the sum."""
        if not extents or extents[-1].end <= start // BLOCK * BLOCK:
            return 0
        return sum(self._block(number, extents) for number in range(start // BLOCK, -(-end // BLOCK)))

    def _block(self, number: int, extents: tuple[Extent, ...]) -> int:
        base = number * BLOCK
        parts = tuple(_within(extents, base, base + BLOCK))
        if not parts:
            return 0
        key = (number, parts)
        found = self._blocks.get(key)
        if found is None:
            block = bytearray(parts[-1].end - base)
            for start, end, at in parts:
                block[start - base : end - base] = self._bytes[at : at + end - start]
            # Zeros at the end are as good as nothing, so that neither a hole nor the size of the file matters here.
            held = block.rstrip(b"\0")
            found = self._blocks[key] = xxhash.xxh3_128_intdigest(held, number) if held else 0
        return found


def _within(extents: tuple[Extent, ...], start: int, end: int) -> Iterator[Extent]:
    """The parts of the extents that lie in a range."""
    for place in range(max(0, bisect_right(extents, start, key=_start) - 1), len(extents)):
        one = extents[place]
        if one.start >= end:
            return
        if one.end > start:
            cut = max(start - one.start, 0)
            yield Extent(one.start + cut, min(one.end, end), one.at + cut)


def _spliced(extents: tuple[Extent, ...], start: int, end: int, at: int | None) -> tuple[Extent, ...]:
    """The extents once a range has been replaced: by the bytes at `at`, or by a hole."""
    first = max(0, bisect_right(extents, start, key=_start) - 1)
    if first < len(extents) and extents[first].end < start:
        first += 1
    last = bisect_right(extents, end, key=_start)
    middle: list[Extent] = []
    for one in extents[first:last]:
        if one.start < start:
            middle.append(Extent(one.start, min(one.end, start), one.at))
    if at is not None:
        before = middle[-1] if middle else None
        if before is not None and before.end == start and before.at + start - before.start == at:
            middle[-1] = Extent(before.start, end, before.at)  # written on and on: still one extent
        else:
            middle.append(Extent(start, end, at))
    for one in extents[first:last]:
        if one.end > end:
            cut = max(end - one.start, 0)
            middle.append(Extent(one.start + cut, one.end, one.at + cut))
    return extents[:first] + tuple(middle) + extents[last:]


def _start(extent: Extent) -> int:
    return extent.start
