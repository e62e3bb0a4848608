"""Whether a value fits the annotation of an argument: what a call may accept, and not only survive."""

import math
import os
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

LARGEST = 2**128


def fits(value: object, hint: Any) -> bool:
    """Strict where Python is lenient: a bool is no number, NaN and infinity are none, a text is no list, and a text has
    no NUL and no half of a surrogate pair."""
    if hint is Any:
        return True
    origin, given = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in given)
    if origin is Literal:
        return any(value is one or (type(value) is type(one) and value == one) for one in given)
    if origin in (Sequence, list, tuple):
        if not isinstance(value, list | tuple):
            return False
        if origin is tuple and (not given or given[-1] is not Ellipsis):
            return len(value) == len(given) and all(map(fits, value, given))
        return all(fits(each, given[0]) for each in value)
    if origin in (Mapping, dict):
        return isinstance(value, Mapping) and all(
            fits(name, given[0]) and fits(each, given[1]) for name, each in value.items()
        )
    if origin is Callable or hint is Callable:
        return callable(value)
    if hint in (None, type(None)):
        return value is None
    if hint is bool:
        return isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST
    if hint is float:
        return fits(value, int) or (isinstance(value, float) and math.isfinite(value))
    if hint is str:
        return isinstance(value, str) and "\0" not in value and _is_encodable(value)
    if isinstance(hint, TypeVar):
        return True
    if getattr(hint, "_is_protocol", False):
        wanted = [name for name in vars(hint) if not name.startswith("_") or name == "__call__"]
        return all(hasattr(value, name) for name in wanted)
    return isinstance(value, origin or hint)


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
