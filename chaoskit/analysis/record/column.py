"""`Column`: the packed values of one rank in every step: of one component, or its losses, samples or rows.

A fingerprint takes 16 bytes here, and 89 as a text. Columns are compared and searched as bytes. Values that cannot be
packed are kept as texts, so that a column always holds exactly the values that it was made of.
"""

from __future__ import annotations

import json
import sys
from array import array
from binascii import hexlify, unhexlify
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, cast, overload

#: Bytes that a text takes besides its characters: those of the object and a pointer.
_TEXT = 57
#: The number of values that are unpacked, or compared, at a time.
_CHUNK = 512


@dataclass(frozen=True)
class _Words:
    """How words, separated by blanks, are packed, each to `size` bytes. `none` stands for a missing word. `digits` is
    the length of a word, 0 if lengths differ. `pack` raises ValueError for a text that `unpack` would not return
    unchanged. `name` is that of the constant."""

    name: str
    size: int
    none: str
    digits: int
    pack: Callable[[str], bytes]
    unpack: Callable[[bytes], str]

    def __reduce__(self) -> str:
        return self.name

    def counts(self, values: Iterable[str]) -> set[int]:
        """The numbers of words in these values."""
        if self.digits:
            return {length // (self.digits + 1) + 1 for length in set(map(len, values))}
        return {value.count(" ") + 1 for value in values}


def _hex(name: str, size: int) -> _Words:
    """Hexadecimal digits: fingerprints of components, of 16 bytes, and of samples, of 8."""
    return _unpacked_again(
        _Words(name, size, "0" * 2 * size, 2 * size, bytes.fromhex, lambda cells: cells.hex(" ", size))
    )


def _unpacked_again(words: _Words) -> _Words:
    def pack(text: str) -> bytes:
        cells = words.pack(text)
        if words.unpack(cells) != text:
            raise ValueError("would not come out as it went in")
        return cells

    return replace(words, pack=pack)


def _floats(cells: bytes) -> str:
    return " ".join(map(float.hex, array("d", cells)))


def _places(text: str) -> bytes:
    """Pack whole numbers without a sign, in their usual form: JSON allows no leading zero."""
    if not (text.isascii() and text.replace(" ", "").isdecimal()):
        raise ValueError("something else than digits")
    return array("I", json.loads(f"[{text.replace(' ', ',')}]")).tobytes()


_FINGERPRINTS, _SAMPLES = _hex("_FINGERPRINTS", 16), _hex("_SAMPLES", 8)
#: Losses and learning rates, as `float.hex` writes them.
_FLOATS = _unpacked_again(
    _Words(
        "_FLOATS", 8, (-sys.float_info.max).hex(), 0,
        lambda text: array("d", map(float.fromhex, text.split(" "))).tobytes(), _floats,
    )
)  # fmt: skip
#: Positions in the data set.
_PLACES = _Words(
    "_PLACES", 4, f"{2**32 - 1}", 0, _places, lambda cells: " ".join(map(str, array("I", cells)))
)  # fmt: skip


def _words_like(text: str) -> _Words | None:
    """How values such as this one may be packed."""
    word = text.partition(" ")[0]
    if len(word) in (16, 32) and "x" not in word:
        return _SAMPLES if len(word) == 16 else _FINGERPRINTS
    if "x" in word or word in ("nan", "inf", "-inf"):
        return _FLOATS
    return _PLACES if word.isdecimal() else None


@dataclass(frozen=True)
class _Form:
    """How the values of a column are packed: each as `count` of these `words`, or as a text if `words` is None. `blank`
    is the value without words."""

    words: _Words | None
    count: int
    blank: str | None

    @property
    def width(self) -> int:
        """The length of a value in `Column.cells`."""
        return self.words.size * self.count if self.words is not None else 1

    def pack(self, values: Sequence[str | None]) -> bytes | None:
        """The values as bytes; None if exactly these values could not be unpacked again."""
        words = self.words
        assert words is not None
        whole = all(values) and words.counts(cast("Sequence[str]", values)) == {self.count}
        text = " ".join(cast("Sequence[str]", values) if whole else map(self._filled, values))
        try:
            cells = words.pack(text)
            if len(cells) != self.width * len(values):
                return None
        except (ValueError, OverflowError):
            return None
        # If words are missing, exactly these must be missing again after unpacking.
        return cells if (whole and words.none not in text) or self.unpack(cells) == [*values] else None

    def _filled(self, value: str | None) -> str:
        assert self.words is not None
        missing = self.count - (value.count(" ") + 1 if value else 0)
        return " ".join([*([value] if value else []), *[self.words.none] * missing])

    def unpack(self, cells: bytes) -> list[str | None]:
        """The values of these bytes."""
        words, count = self.words, self.count
        if not cells or words is None:
            return []
        text = words.unpack(cells)
        found = text.split(" ")
        if words.none in text:
            found = ["" if word == words.none else word for word in found]
        if count > 1:
            found = [" ".join(filter(None, found[at : at + count])) for at in range(0, len(found), count)]
        return [value or self.blank for value in found] if "" in found else [*found]


@dataclass(frozen=True, eq=False, slots=True)
class Column(Sequence["str | None"]):
    """The values from `start` to `end` (exclusive) of `cells`, which other columns may share. Make it by `Column.of`,
    or many by `Packing`."""

    form: _Form
    cells: bytes | tuple[str | None, ...]
    start: int
    end: int

    @classmethod
    def of(cls, values: Sequence[str | None], *, blank: str | None = None) -> Column:
        """A column of these values. `blank` is the value of a step that has none: None, or an empty text."""
        form = _form(values, blank)
        if form.words is not None and (packed := form.pack(values)) is not None:
            return cls(form, packed, 0, len(values))
        texts = tuple([value if value is None else sys.intern(value) for value in values])
        return cls(_Form(None, 1, blank), texts, 0, len(values))

    @classmethod
    def of_fingerprints(cls, digits: Sequence[bytes]) -> Column | None:
        """A column of fingerprints of 32 digits, one a value; None if a value is something else."""
        text = b"".join(digits)
        try:
            cells = unhexlify(text)
        except ValueError:
            return None
        size = _FINGERPRINTS.size
        whole = len(cells) == size * len(digits) and hexlify(cells) == text and bytes(size) not in cells
        return cls(_Form(_FINGERPRINTS, 1, None), cells, 0, len(digits)) if whole else None

    @classmethod
    def of_samples(cls, lists: Sequence[bytes]) -> Column | None:
        """A column of lists of fingerprints of samples, such as '"0123456789abcdef","fedcba9876543210"', with equally
        many samples each; None if one is something else."""
        lengths = {*map(len, lists)}
        text, (length, *others) = b",".join(lists), lengths
        count, odd = divmod(length + 1, 19)
        if others or odd or not count:
            return None
        try:
            cells = unhexlify(text.translate(None, b'",'))
        except ValueError:
            return None
        size = _SAMPLES.size
        whole = b'"' + hexlify(cells, ",", size).replace(b",", b'","') + b'"' == text and bytes(size) not in cells
        return cls(_Form(_SAMPLES, count, ""), cells, 0, len(lists)) if whole else None

    @classmethod
    def joined(cls, pieces: Sequence[Sequence[str | None]], *, blank: str | None = None) -> Sequence[str | None]:
        """Join the values of these pieces in one column."""
        if len(pieces) == 1:
            return pieces[0]
        packed = [piece for piece in pieces if isinstance(piece, Column) and isinstance(piece.cells, bytes)]
        form = max((piece.form for piece in packed), key=lambda form: form.count, default=None)
        if form is not None and form.blank == blank:
            cells = [_as(form, piece) for piece in pieces]
            if None not in cells:
                return cls(form, b"".join(cast("list[bytes]", cells)), 0, sum(map(len, pieces)))
        return cls.of([value for piece in pieces for value in piece], blank=blank)

    def __len__(self) -> int:
        return self.end - self.start

    @overload
    def __getitem__(self, place: int) -> str | None: ...
    @overload
    def __getitem__(self, place: slice) -> Column: ...
    def __getitem__(self, place: int | slice) -> str | Column | None:
        if isinstance(place, slice):
            start, end, step = place.indices(len(self))
            if step != 1:
                raise ValueError("a column has no slices with a step")
            return Column(self.form, self.cells, self.start + start, self.start + max(start, end))
        at = self.start + range(len(self))[place]
        return self._values(at, at + 1)[0]

    def __iter__(self) -> Iterator[str | None]:
        for at in range(self.start, self.end, _CHUNK):
            yield from self._values(at, min(at + _CHUNK, self.end))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Column) and len(self) == len(other) and self.form == other.form:
            shared = self.cells is other.cells and self.start == other.start
            return shared or self._raw() == other._raw()
        if not isinstance(other, list | tuple | Column):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, value: object) -> bool:
        return (value is None or isinstance(value, str)) and self.find(value) is not None

    def index(self, value: str | None, start: int = 0, stop: int | None = None) -> int:
        """See `list.index`."""
        found = self[:stop].find(value, start)
        if found is None:
            raise ValueError(f"{value!r} is not in the column")
        return found

    def find(self, value: str | None, start: int = 0) -> int | None:
        """The first place from `start` on that has this value; None if there is none."""
        if isinstance(self.cells, tuple):
            try:
                return self.cells.index(value, self.start + start, self.end) - self.start
            except ValueError:
                return None
        if value and value.count(" ") >= self.form.count:
            return None
        cell, width = self.form.pack([value]), self.form.width
        if cell is None:
            return None
        at, last = (self.start + start) * width, self.end * width
        while (at := self.cells.find(cell, at, last)) >= 0:
            if at % width == 0:
                return at // width - self.start
            at += width - at % width
        return None

    @property
    def is_constant(self) -> bool:
        """Whether there are values, and all are the same."""
        raw, width = self._raw(), self.form.width
        return len(raw) > 0 and raw[width:] == raw[:-width]

    def plus(self, value: str | None) -> Column:
        """The column with one value more at the end."""
        if isinstance(self.cells, bytes) and (cell := self.form.pack([value])) is not None:
            raw = self._raw()
            assert isinstance(raw, bytes)
            return Column(self.form, raw + cell, 0, len(self) + 1)
        return Column.of([*self, value], blank=self.form.blank)

    def cell_of(self, form: _Form) -> Callable[[int], bytes | tuple[str | None, ...] | None] | None:
        """A function that gives, for a place, the bytes of its value in that form, by which values can be compared;
        None for a column of another form."""
        raw, words = self._raw(), form.words
        if self.form == form:
            width = form.width
            return lambda at: raw[at * width : (at + 1) * width]
        if words is None or form.count > 1 or isinstance(raw, bytes):
            return None
        texts, blank = raw, words.pack(words.none)

        def packed(at: int) -> bytes | None:
            text = texts[at]
            if text == form.blank:
                return blank
            try:
                cell = words.pack(text or "")
                return cell if cell != blank and words.unpack(cell) == text else None
            except (ValueError, OverflowError):
                return None

        return packed

    def within(self, other: Column) -> Column | None:
        """The piece of another column that holds exactly these values; None if it was not found."""
        if self.form != other.form or not len(self):
            return None
        at = other.find(self[0])
        piece = other[at : at + len(self)] if at is not None else None
        return piece if piece is not None and piece == self else None

    def _raw(self) -> bytes | tuple[str | None, ...]:
        width = self.form.width
        return self.cells[self.start * width : self.end * width]

    def _values(self, start: int, end: int) -> list[str | None]:
        if isinstance(self.cells, tuple):
            return list(self.cells[start:end])
        width = self.form.width
        return self.form.unpack(self.cells[start * width : end * width])


@dataclass
class Packing:
    """Makes the columns of one run, and keeps equal ones only once: most columns of replicas are equal."""

    _known: dict[tuple[_Form, Any], Column] = field(default_factory=dict)

    def column(
        self, values: Sequence[str | None], *, blank: str | None = None, like: Sequence[str | None] | None = None
    ) -> Column:
        """A column of these values. If `like` holds them as well, as in a run that equals the reference, it is a piece
        of `like`."""
        made = values if isinstance(values, Column) else Column.of(values, blank=blank)
        if isinstance(like, Column) and (piece := made.within(like)) is not None:
            return piece
        return self._known.setdefault((made.form, made._raw()), made)

    def texts(self, values: Sequence[str], *, like: Sequence[str]) -> Sequence[str]:
        """The same for losses, samples or rows, which are empty texts if there are none."""
        return cast("Sequence[str]", self.column(values, blank="", like=like))


def _as(form: _Form, piece: Sequence[str | None]) -> bytes | None:
    """The cells of a piece in the form of other pieces; None if that is impossible, or takes more memory than texts."""
    if isinstance(piece, Column) and piece.form == form:
        return cast(bytes, piece._raw())
    values = [*piece]
    assert form.words is not None
    return form.pack(values) if _pays(form.words, form.count, values) else None


def _pays(words: _Words, count: int, values: Sequence[str | None]) -> bool:
    """Whether packing makes the values smaller."""
    some = [value for value in values if value]
    return words.size * count * len(values) <= _TEXT * len(some) + sum(map(len, some))


def _form(values: Sequence[str | None], blank: str | None) -> _Form:
    """How these values may be packed, if packing makes them smaller."""
    some = [value for value in values if value]
    words = _words_like(some[0]) if some else None
    if words is not None:
        count = max(words.counts(some))
        if _pays(words, count, values):
            return _Form(words, count, blank)
    return _Form(None, 1, blank)


def is_constant(column: Sequence[str | None]) -> bool:
    """Whether there are values, and all are the same."""
    if isinstance(column, Column):
        return column.is_constant
    return len(column) > 0 and column.count(column[0]) == len(column)


def places_of(column: Sequence[str | None], value: str) -> Iterator[int]:
    """The places at which a column has this value."""
    place = -1
    while True:
        try:
            place = column.index(value, place + 1)
        except ValueError:
            return
        yield place


def values_apart(
    one: Sequence[str | None], other: Sequence[str | None]
) -> Iterator[tuple[int, str | None, str | None]]:
    """The places at which two columns of equal length differ, each with both values. It reads no further than the
    caller asks."""
    for start in range(0, len(one), _CHUNK) if one != other else ():
        a, b = one[start : start + _CHUNK], other[start : start + _CHUNK]
        if a != b:
            yield from [(start + i, x, y) for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]


def places_apart(one: Sequence[str | None], other: Sequence[str | None]) -> Iterator[int]:
    """The places at which two columns of equal length differ."""
    return (place for place, _, _ in values_apart(one, other))


def apart_among(one: Sequence[str | None], other: Sequence[str | None], places: Iterable[int]) -> Iterator[int]:
    """Those of the given places at which two columns differ."""
    if isinstance(one, Column) and isinstance(other, Column):
        form = one.form if one.form.words is not None else other.form
        first, second = one.cell_of(form), other.cell_of(form)
        if first is not None and second is not None:
            yield from (at for at in places if first(at) != second(at))
            return
    yield from (at for at in places if one[at] != other[at])


def first_apart(one: Sequence[str | None], other: Sequence[str | None], *, limit: int = 1) -> list[int]:
    """The first places at which two columns of equal length differ, at most `limit` of them."""
    return list(islice(places_apart(one, other), limit))
