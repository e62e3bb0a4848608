"""Validates arguments. Each `check_` function returns the value, or raises a UsageError that names the argument.

`where` is the function or class that was called, `argument` the name of its argument.
"""

from __future__ import annotations

import difflib
import errno
import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

from chaoskit.errors import UsageError

Value = TypeVar("Value")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


def check_number(
    where: str,
    argument: str,
    value: Any,
    *,
    over: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """A finite number: greater than `over`, at least `least`, less than `below`, at most `most`."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if (
        not number
        or (over is not None and value <= over)
        or (least is not None and value < least)
        or (below is not None and value >= below)
        or (most is not None and value > most)
    ):
        kind = (
            "a positive number" if over == 0 else "a finite number" if over is None else f"a number over {over:g}"
        )
        kind = kind if least is None else f"a number from {least:g}"
        limits = (f" up to {most:g}" if most is not None else "") + (
            f", below {below:g}" if below is not None else ""
        )
        raise UsageError(f"{where}: {argument} must be {kind}{limits}, not {value!r}")
    return float(value)


def check_whole(
    where: str, argument: str, value: Any, *, least: int | None = None, most: int | None = None, also: str = ""
) -> int:
    """A whole number from `least` to `most`. `also` names what else the caller accepts, for the message."""
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number or (least is not None and value < least) or (most is not None and value > most):
        low = f" from {least}" if least is not None else ""
        high = f" to {most}" if most is not None else ""
        other = f" (or {also})" if also else ""
        raise UsageError(f"{where}: {argument} must be a whole number{low}{high}{other}, not {value!r}")
    return int(value)


def check_duration(where: str, argument: str, value: Any) -> float:
    """A time as a positive number of seconds, or as a text with its unit: '90s', '30m', '6h', '1.5d'. In seconds."""
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())) is not None:
        value = float(found[1]) * _UNITS[found[2] or "s"]
    if isinstance(value, str):
        raise UsageError(f"{where}: {argument} must be a time such as '90s', '30m' or '6h', not {value!r}")
    return check_number(where, argument, value, over=0)


def check_flag(where: str, argument: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise UsageError(f"{where}: {argument} must be True or False, not {value!r}")
    return value


def check_choice(where: str, argument: str, value: Value, choices: Iterable[Value]) -> Value:
    """One of `choices`."""
    choices = tuple(choices)
    if value not in choices:
        raise UsageError(f"{where}: {argument} must be one of {', '.join(map(str, choices))}, not {value!r}")
    return value


def check_choices(where: str, argument: str, values: Any, choices: Sequence[str]) -> tuple[str, ...]:
    """A list or tuple of one or more of `choices`."""
    several = isinstance(values, tuple | list) and len(values) > 0
    unknown = [one for one in values if one not in choices] if several else [values]
    if unknown:
        raise UsageError(f"{where}: {argument} must be some of {', '.join(choices)}, not {unknown[0]!r}")
    return tuple(values)


def check_strings(where: str, argument: str, value: Any) -> tuple[str, ...]:
    """A sequence of strings, and not a single string."""
    several = isinstance(value, Iterable) and not isinstance(value, str)
    if not several or not all(isinstance(word, str) for word in value):
        raise UsageError(f"{where}: {argument} must be a list of strings, not {value!r}")
    return tuple(value)


def check_pattern(where: str, argument: str, value: Any, *, example: str) -> str:
    """A shell pattern that is not empty."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: {argument} must be a shell pattern like {example!r}, not {value!r}")
    return value


def check_errno(where: str, argument: str, value: Any) -> str:
    """The name of an error of the operating system."""
    if not isinstance(value, str) or value not in errno.errorcode.values():
        raise UsageError(f"{where}: {argument} must be the name of a system error like 'EIO', not {value!r}")
    return value


def check_numbered(
    where: str, argument: str, value: Any, *, distinct: bool = False
) -> int | tuple[int, ...] | str:
    """Ranks or nodes by number: one whole number, a tuple of them (`distinct`: each once), or 'all'."""
    several = value if isinstance(value, tuple) else (value,)
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in several)
    if value != "all" and (not several or not whole):
        raise UsageError(f"{where}: {argument} must be a whole number, a tuple of them or 'all', not {value!r}")
    if distinct and len(set(several)) < len(several):
        raise UsageError(f"{where}: {argument} {value!r} names one of them twice; name each once")
    given: int | tuple[int, ...] | str = value
    return given


def near_miss(name: str, known: Collection[str]) -> str:
    """Return '; did you mean 'x'?' if a known name is near, else a list of all known names."""
    close = difflib.get_close_matches(name, known, n=1) or [each for each in known if len(name) > 2 and name in each]
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(sorted(known))}"
