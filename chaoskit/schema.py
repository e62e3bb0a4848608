"""`conform`: checks JSON that somebody else may have written against a type, and makes a value of that type.

A type is what annotations are made of: str, int, float, bool, None, Any, `X | Y`, `Literal`, `Mapping[K, V]`,
`tuple[X, ...]`, `tuple[X, Y]`, `Sequence[X]`, an Enum, a dataclass, a TypedDict, and `Annotated[X, TEST]` with a test
of this module. Numbers are finite and fit into 64 bits, and JSON of any type is not nested deeply: what is done with it
later cannot overflow.

Fields that a dataclass does not know are those of a later version, and are left out. Standard library only; ranks
import it.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

T = TypeVar("T")
Reader = Callable[[Any], Any]

#: Deepest nesting of JSON of any type.
DEEPEST = 32
_WIDEST = 2**63 - 1
_SHOWN = 60


class SchemaError(ValueError):
    """A value that does not conform. The message names the field: 'results[2].seconds must be a number, not 'x''."""

    def __init__(self, wanted: str, value: object = MISSING, *where: str) -> None:
        super().__init__(wanted)
        self.wanted, self.value, self.where = wanted, value, where

    def below(self, *where: str) -> SchemaError:
        """The same, of a field further up."""
        return SchemaError(self.wanted, self.value, *where, *self.where)

    def __str__(self) -> str:
        name = "".join(self.where).lstrip(".") or "it"
        return f"{name} {self.wanted}" + ("" if self.value is MISSING else f", not {_shown(self.value)}")


@dataclass(frozen=True)
class Range:
    """Accept numbers from `least` to `most`."""

    least: float
    most: float = _WIDEST

    def __call__(self, value: Any) -> None:
        if not self.least <= value <= self.most:
            wanted = f"from {self.least:g}" + ("" if self.most == _WIDEST else f" to {self.most:g}")
            raise SchemaError(f"must be a number {wanted}", value)


@dataclass(frozen=True)
class OneOf:
    """Accept these words."""

    words: tuple[str, ...]

    def __call__(self, value: Any) -> None:
        if value not in self.words:
            raise SchemaError(f"must be one of {', '.join(self.words)}", value)


@dataclass(frozen=True)
class Like:
    """Accept what conforms to another type too, which is not that of the annotation."""

    kind: Any

    def __call__(self, value: Any) -> None:
        reader(self.kind)(value)


def file_name(value: str) -> None:
    """Accept the name of a file, without a directory."""
    if not value.isprintable() or "/" in value or value.startswith(".") or not value:
        raise SchemaError("must be the name of a file", value)


#: A count: a number of steps, of bytes. A time, which clocks of several machines may make negative.
Count = Annotated[int, Range(0)]
Seconds = Annotated[float, Range(-1e15, 1e15)]
FileName = Annotated[str, file_name]


def conform(kind: type[T], value: Any) -> T:
    """The value as one of that type, lists as tuples where the type says so. Raises SchemaError, naming the field."""
    return cast(T, reader(cast(Any, kind))(value))


@cache
def reader(kind: Any) -> Reader:
    """What `conform` does for a type, made once."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return _any
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is Annotated:
        return _tested(reader(inner[0]), inner[1:])
    if origin is Literal:
        return _literal(inner)
    if origin in (Union, types.UnionType):
        return _union(inner)
    if origin is tuple and inner[-1] is not Ellipsis:
        return _pairs([reader(each) for each in inner])
    if origin in (tuple, Sequence, list, frozenset):
        return _sequence(reader(inner[0]), origin)
    if origin in (Mapping, dict):
        return _mapping(inner[0], reader(inner[1]))
    if isinstance(kind, type) and issubclass(kind, Enum):
        word = _literal([each.value for each in kind])
        return lambda value: kind(word(value))
    if is_typeddict(kind):
        # Its other fields stay.
        hints = get_type_hints(kind, include_extras=True)
        return _fields(hints, kind.__required_keys__, lambda value, known: {**value, **known})
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        made = [each for each in fields(kind) if each.init]
        needed = [each.name for each in made if each.default is MISSING and each.default_factory is MISSING]
        own, make = {each.name: hints[each.name] for each in made}, cast(Any, kind)
        return _fields(own, needed, lambda _, known: make(**known))
    raise TypeError(f"no schema for {kind!r}")


def check_fields(needed: Mapping[str, Any], further: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], None]:
    """What raises SchemaError for an object whose fields do not conform to these types; others may be there."""
    every = {name: reader(kind) for name, kind in {**needed, **further}.items()}
    required = tuple(needed)

    def check(value: Mapping[str, Any]) -> None:
        for name in required:
            if name not in value:
                raise SchemaError(f"lacks {name}")
        try:
            for name, each in value.items():
                if (own := every.get(name)) is not None:
                    own(each)
        except SchemaError as error:
            raise error.below(f".{name}") from None

    return check


def _plain(kind: type, wanted: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise SchemaError(f"must be {wanted}", value)
        return value

    return read


def _int(value: Any) -> Any:
    if type(value) is not int:
        raise SchemaError("must be a whole number", value)
    if not -_WIDEST <= value <= _WIDEST:
        raise SchemaError("must be a number of 64 bits")
    return value


def _float(value: Any) -> Any:
    if type(value) not in (int, float):
        raise SchemaError("must be a number", value)
    if not -_WIDEST <= value <= _WIDEST or not math.isfinite(value):
        raise SchemaError("must be a finite number")
    return value


_TEXT, _TEXTS = _plain(str, "a text"), frozenset((str,))
_PLAIN: dict[Any, Reader] = {
    str: _TEXT, bool: _plain(bool, "true or false"), type(None): _plain(type(None), "null"),
    int: _int, float: _float,
}  # fmt: skip


def _any(value: Any, depth: int = 0) -> Any:
    """JSON of any kind, with numbers of 64 bits and NaN, not nested too deeply."""
    if depth > DEEPEST:
        raise SchemaError("is nested too deeply")
    if type(value) is int:
        return _int(value)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _any(each, depth + 1)
    return value


def _tested(own: Reader, tests: Sequence[Callable[[Any], None]]) -> Reader:
    def read(value: Any) -> Any:
        found = own(value)
        for test in tests:
            test(found)
        return found

    if own not in (_int, _float) or not all(isinstance(test, Range) for test in tests):
        return read
    # Records have very many numbers, and most are right: these pass by one comparison. NaN does not.
    ranges = [cast(Range, test) for test in tests]
    least, most = max([-_WIDEST, *(one.least for one in ranges)]), min([_WIDEST, *(one.most for one in ranges)])
    kinds = (int,) if own is _int else (int, float)

    def number(value: Any) -> Any:
        return value if type(value) in kinds and least <= value <= most else read(value)

    return number


def _literal(words: Collection[Any]) -> Reader:
    def read(value: Any) -> Any:
        if not any(type(value) is type(word) and value == word for word in words):
            raise SchemaError(f"must be one of {', '.join(map(repr, words))}", value)
        return value

    return read


def _union(kinds: Sequence[Any]) -> Reader:
    every = [reader(kind) for kind in kinds]

    def read(value: Any) -> Any:
        wanted = []
        for own in every:
            try:
                return own(value)
            except SchemaError as error:
                if error.where:  # of the right type, and wrong inside
                    raise
                wanted.append(error.wanted.removeprefix("must be "))
        raise SchemaError(f"must be {' or '.join(wanted)}", value)

    return read


def _sequence(own: Reader, origin: Any) -> Reader:
    make = tuple if origin is Sequence else origin

    def read(value: Any) -> Any:
        if type(value) not in (list, tuple):
            raise SchemaError("must be a list", value)
        if own is _TEXT and _TEXTS.issuperset(map(type, value)):  # most are such, and records have very many
            return make(value)
        try:
            return make([own(each) for each in value])
        except SchemaError:
            for at, each in enumerate(value):
                try:
                    own(each)
                except SchemaError as error:
                    raise error.below(f"[{at}]") from None
            raise

    return read


def _pairs(every: Sequence[Reader]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) not in (list, tuple) or len(value) != len(every):
            raise SchemaError(f"must be a list of {len(every)}", value)
        found = []
        for at, (own, each) in enumerate(zip(every, value, strict=True)):
            try:
                found.append(own(each))
            except SchemaError as error:
                raise error.below(f"[{at}]") from None
        return tuple(found)

    return read


def _mapping(key: Any, own: Reader) -> Reader:
    named = reader(str if key is int else key)

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise SchemaError("must be an object", value)
        if key is str and own is _TEXT and _TEXTS.issuperset(map(type, value.values())):
            return value
        found = {}
        for name, each in value.items():
            try:
                found[_number(name) if key is int else named(name)] = own(each)
            except SchemaError as error:
                raise error.below(f".{name}") from None
        return found

    return read


def _number(name: str) -> int:
    """A number as the name of a field."""
    if not (name.isascii() and name.isdigit() and len(name) < 10):
        raise SchemaError("must be named by a number")
    return int(name)


def _fields(hints: Mapping[str, Any], needed: Collection[str], make: Callable[[Any, Any], Any]) -> Reader:
    every = {name: reader(kind) for name, kind in hints.items()}

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise SchemaError("must be an object", value)
        if lacking := [name for name in every if name in needed and name not in value]:
            raise SchemaError(f"lacks {', '.join(lacking)}")
        known = {}
        for name, each in value.items():
            try:
                if name in every:
                    known[name] = every[name](each)
            except SchemaError as error:
                raise error.below(f".{name}") from None
        try:
            return make(value, known)
        except SchemaError:
            raise
        except ValueError as error:
            raise SchemaError(f"is wrong: {error}") from error

    return read


def _shown(value: object) -> str:
    if type(value) is int and abs(value) > _WIDEST:
        return "a number of more than 64 bits"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value[:_SHOWN] if isinstance(value, str) else value)
    return f"{text[:_SHOWN]}..." if len(text) > _SHOWN else text
