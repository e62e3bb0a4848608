"""Strategies of values for an argument: those that its annotation suggests, nearly so, and any others."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from chaoskit.validation import shown
from tests.arguments.values import VALUES


class Number(IntEnum):
    """A whole number that is more than one."""

    ONE = 1


class Word(StrEnum):
    """A text that is more than one."""

    ALL = "all"


class Raises:
    """Whatever is done with it."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("not so")

    __len__ = __iter__ = __index__ = __float__ = __int__ = __str__ = __repr__ = __contains__ = __getitem__ = _raise
    __eq__ = __ne__ = __lt__ = __gt__ = __bool__ = __hash__ = __fspath__ = _raise  # type: ignore[assignment]


_DEEP: Any = []
for _ in range(2000):
    _DEEP = [_DEEP]
#: What people write for times, sizes, numbers of ranks and patterns, and what only looks like it.
WRITTEN = (
    "90s", "1.5 h", "6H", "-1s", "0s", "1e3s", "\u0661s", "9" * 400 + "s", "1d1h", "10GB", "1 GiB", "0GB",
    "9" * 400 + "GB", "all", "All", "1", "1:2", "2:1", "0x1", "nan", "inf", "EIO", "eio", "E\0IO", "*", "[", "**/[!a-",
    "{out}", "{", "a=b", "/", "..", "gradient:head.*:reduced", "aws",
)  # fmt: skip
TEXTS = (
    st.sampled_from(range(len(WRITTEN))).map(WRITTEN.__getitem__)
    | st.text(max_size=4)
    | st.text(st.characters(categories=["Cs", "Cc"]), max_size=3)
)
WHOLE = st.integers(-3, 9) | st.integers() | st.sampled_from((2**31, 2**63, 2**128, -(2**128) - 1, 10**400))
NUMBERS = st.floats(-9, 9) | st.floats() | st.sampled_from((5e-324, 1e-300, 1e300, 3.2e8, math.nan, math.inf))
_OTHERS = (
    *VALUES.values(), Number.ONE, Word.ALL, Raises(), Decimal("1.5"), Decimal("nan"), Fraction(1, 3), 1j, range(3),
    _DEEP, Path("x"), Path("/"), bytearray(b"x"), memoryview(b"x"), NotImplemented, Ellipsis, frozenset({1}), OSError(),
)  # fmt: skip
#: By number, as some of them have no text, which Hypothesis would ask for.
OTHERS = st.sampled_from(range(len(_OTHERS))).map(_OTHERS.__getitem__)
ANYTHING = st.recursive(
    OTHERS | TEXTS | WHOLE | NUMBERS | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(TEXTS | WHOLE, inner, max_size=2)
        | st.lists(inner, max_size=2).map(iter)
    ),
    max_leaves=4,
)


class Given:
    """A value, which may have no text."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return shown(self.value)


def values_for(hint: Any) -> st.SearchStrategy[Given]:
    """Values for an argument with that annotation: of its type, nearly so, or any."""
    return (_near(hint) | _near(hint) | ANYTHING).map(Given)


def _near(hint: Any) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([_near(each) for each in inner])
    if origin is Literal:
        return st.sampled_from(inner) | st.sampled_from([str(each).upper() for each in inner])
    if origin in (Sequence, list, tuple):
        several = st.lists(_near(inner[0]) if inner else ANYTHING, max_size=3)
        return several | several.map(tuple)
    if origin in (Mapping, dict):
        keys = _near(inner[0]) if inner[0] in (str, int) else TEXTS | WHOLE
        return st.dictionaries(keys, _near(inner[1]), max_size=2)
    plain = {str: TEXTS, int: WHOLE, float: NUMBERS | WHOLE, bool: st.booleans() | st.integers(0, 1)}
    return plain.get(hint, ANYTHING)
