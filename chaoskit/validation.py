"""Validates arguments. Each `check_` function returns the value, or raises a UsageError that names the argument.

`where` is the function or class that was called, `argument` the name of its argument.
"""

from __future__ import annotations

import difflib
import errno
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from chaoskit.errors import UsageError

Value = TypeVar("Value")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B)", re.IGNORECASE)
_BYTES = {
    f"{letter}{kind}": base ** (at + 1)
    for at, letter in enumerate("KMGT")
    for kind, base in (("B", 1000), ("IB", 1024))
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
#: Strikes of one schedule: one a second, for more than a day.
MOST_STRIKES = 100_000
#: Seconds of the longest deadline: ten years.
LONGEST = 3.2e8
#: The largest number that a stored record may have (64 bits with a sign). What a record cannot keep is refused at once.
LARGEST = 2**63 - 1
#: Characters of a value in a message.
_MOST_SHOWN = 120


def shown(value: object) -> str:
    """Format any value for a message: never long, and also one that has no text."""
    try:
        text = repr(value)
    except Exception:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


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
    number = _is_whole(value) or (isinstance(value, float) and math.isfinite(value))
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
        limits = (f" up to {most:.10g}" if most is not None else "") + (
            f", below {below:g}" if below is not None else ""
        )
        raise UsageError(f"{where}: {argument} must be {kind}{limits}, not {shown(value)}")
    return float(value)


def check_whole(
    where: str, argument: str, value: Any, *, least: int | None = None, most: int | None = None, also: str = ""
) -> int:
    """A whole number from `least` to `most`. `also` names what else the caller accepts, for the message."""
    number = _is_whole(value)
    if not number or (least is not None and value < least) or (most is not None and value > most):
        if isinstance(value, int) and abs(value) > LARGEST:  # the message names both limits
            least, most = -LARGEST if least is None else least, LARGEST if most is None else most
        low = f" from {least}" if least is not None else ""
        high = f" to {most}" if most is not None else ""
        other = f" (or {also})" if also else ""
        raise UsageError(f"{where}: {argument} must be a whole number{low}{high}{other}, not {shown(value)}")
    return int(value)


def check_duration(where: str, argument: str, value: Any) -> float:
    """A time as a positive number of seconds, or as a text with its unit: '90s', '30m', '6h', '1.5d'. In seconds."""
    if isinstance(value, str):
        found = _DURATION.fullmatch(value.strip())
        seconds = float(found[1]) * _UNITS[found[2] or "s"] if found is not None else 0.0
        if not 0 < seconds < math.inf:
            raise UsageError(f"{where}: {argument} must be a time such as '90s', '30m' or '6h', not {shown(value)}")
        return seconds
    return check_number(where, argument, value, over=0)


def check_size(where: str, argument: str, value: Any) -> int:
    """A size as a text with its unit: '500MB', '20GB', '1.5TB', '8GiB'. In bytes."""
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or (size := int(float(found[1]) * _BYTES[found[2].upper()] + 0.5)) <= 0:
        raise UsageError(f"{where}: {argument} must have a unit, such as '500MB', '20GB' or '8GiB', not {value!r}")
    return size


def check_schedule(where: str, interval: Any, during: Any) -> tuple[float, int]:
    """The seconds between the strikes of a schedule, and how many fit into `during`: one at least."""
    between = check_duration(where, "interval", interval)
    count = check_duration(where, "during", during) / between + 1e-9
    if count < 1:
        raise UsageError(f"{where}: during={during} is shorter than the interval {interval}: there is no strike")
    if count > MOST_STRIKES:
        raise UsageError(
            f"{where}: interval={interval} fits into during={during} more than {MOST_STRIKES:,} times: give a longer "
            "interval, or a shorter time"
        )
    return between, int(count)


def check_flag(where: str, argument: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise UsageError(f"{where}: {argument} must be True or False, not {shown(value)}")
    return value


def check_choice(where: str, argument: str, value: Value, choices: Iterable[Value]) -> Value:
    """One of `choices`, and of its type."""
    choices = tuple(choices)
    if not any(type(value) is type(one) and value == one for one in choices):
        names = ", ".join(str(one) or "''" for one in choices)
        raise UsageError(f"{where}: {argument} must be one of {names}, not {shown(value)}")
    return value


def check_choices(where: str, argument: str, values: Any, choices: Sequence[str]) -> tuple[str, ...]:
    """A list or tuple of one or more of `choices`."""
    several = isinstance(values, tuple | list) and len(values) > 0
    unknown = [one for one in values if not isinstance(one, str) or one not in choices] if several else [values]
    if unknown:
        raise UsageError(f"{where}: {argument} must be some of {', '.join(choices)}, not {shown(unknown[0])}")
    return tuple(values)


def check_text(where: str, argument: str, value: Any, *, what: str = "a text") -> str:
    """A text that the system can take: without NUL, and whose characters are whole. `what` says what it is."""
    if not isinstance(value, str) or not is_whole_text(value):
        raise UsageError(f"{where}: {argument} must be {what}, not {shown(value)}")
    return value


def check_path(where: str, argument: str, value: Any) -> str:
    """A path, as a text or as `pathlib` has it; returned as a text."""
    if isinstance(value, os.PathLike):
        value = value.__fspath__()
    return check_text(where, argument, value, what="a path")


def check_strings(where: str, argument: str, value: Any) -> tuple[str, ...]:
    """A list or another sequence of strings, and not a single string."""
    several = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
    if not several or not all(isinstance(word, str) for word in value):
        raise UsageError(f"{where}: {argument} must be a list of strings, not {shown(value)}")
    for word in value:
        check_text(where, argument, word, what="a list of strings without NUL")
    return tuple(value)


def check_variables(where: str, argument: str, value: Any) -> dict[str, str]:
    """A mapping of names of environment variables to texts."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: {argument} must be a dict of strings, {{'NAME': 'value'}}, not {shown(value)}")
    for name, each in value.items():
        if not isinstance(name, str) or not is_whole_text(name) or not name or "=" in name:
            raise UsageError(f"{where}: {argument} must have names of variables as its keys, not {shown(name)}")
        if not isinstance(each, str) or not is_whole_text(each):
            raise UsageError(
                f"{where}: {argument}[{name!r}] must be a string, which variables are, not {shown(each)}"
            )
    return dict(value)


def check_instance(where: str, argument: str, value: Any, kind: type[Value], *, example: str) -> Value:
    """An object of that class. `example` says how to get one."""
    if not isinstance(value, kind) or isinstance(value, str | bytes):
        raise UsageError(f"{where}: {argument} must be a {kind.__name__}, {example}, not {shown(value)}")
    return value


def is_all(value: Any) -> bool:
    """Whether it is the word 'all'."""
    return isinstance(value, str) and value == "all"


def check_pattern(where: str, argument: str, value: Any, *, example: str) -> str:
    """A shell pattern that is not empty."""
    if not isinstance(value, str) or not value or not is_whole_text(value):
        raise UsageError(f"{where}: {argument} must be a shell pattern like {example!r}, not {shown(value)}")
    return value


def check_errno(where: str, argument: str, value: Any) -> str:
    """The name of an error of the operating system."""
    if not isinstance(value, str) or value not in errno.errorcode.values():
        raise UsageError(f"{where}: {argument} must be the name of a system error like 'EIO', not {shown(value)}")
    return value


def check_numbered(
    where: str, argument: str, value: Any, *, distinct: bool = False
) -> int | tuple[int, ...] | str:
    """Ranks or nodes by number: one whole number, a tuple of them (`distinct`: each once), or 'all'."""
    if is_all(value):
        return "all"
    several = value if isinstance(value, tuple) else (value,)
    if not several or not all(map(_is_whole, several)):
        raise UsageError(
            f"{where}: {argument} must be a whole number, a tuple of them or 'all', not {shown(value)}"
        )
    if distinct and len(set(several)) < len(several):
        raise UsageError(f"{where}: {argument} {value!r} names one of them twice; name each once")
    given: int | tuple[int, ...] = value
    return given


def is_whole_text(text: str) -> bool:
    """Whether the system can take the text as a name or an argument: no NUL, no half of a character."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST


def near_miss(name: str, known: Collection[str]) -> str:
    """Return '; did you mean 'x'?' if a known name is near, else a list of all known names."""
    close = difflib.get_close_matches(name, known, n=1) or [each for each in known if len(name) > 2 and name in each]
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(sorted(known))}"
