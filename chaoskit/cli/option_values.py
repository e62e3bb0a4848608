"""Converters of options: each takes the text of one value, and raises ArgumentTypeError, which says what it must be."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from chaoskit.errors import UsageError
from chaoskit.validation import LONGEST, check_duration, check_size, check_whole

Value = TypeVar("Value")


def count(text: str) -> int:
    """Parse a whole number from 0."""
    return _whole(text, least=0)


def positive(text: str) -> int:
    """Parse a whole number from 1."""
    return _whole(text, least=1)


def several(text: str) -> int:
    """Parse a whole number from 2."""
    return _whole(text, least=2)


def _whole(text: str, *, least: int) -> int:
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return _checked(lambda: check_whole("option", "the value", value, least=least))


def seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    return real(text, "a positive number of seconds, ten years at most", lambda value: 0 < value <= LONGEST)


def real(text: str, what: str, fits: Callable[[float], bool]) -> float:
    """Parse a number that `fits`; `what` says what it must be."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not fits(value):
        raise argparse.ArgumentTypeError(f"{text} is not {what}")
    return value


def words(text: str) -> list[str]:
    """Split arguments as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot be split into arguments ({error}): check the quotes"
        ) from error


def _checked(check: Callable[[], Value]) -> Value:
    """What the check returns; turns its UsageError into an error of argparse."""
    try:
        return check()
    except UsageError as error:
        # The option is named already: by argparse, or with the line of the file.
        argument, _, told = str(error).partition(": ")
        raise argparse.ArgumentTypeError(told if argument.isidentifier() and told else str(error)) from error


def _passed(check: Callable[[str], object], text: str) -> str:
    """Return the text if `check` accepts it."""
    _checked(lambda: check(text))
    return text


def resume_args(text: str) -> list[str]:
    """Validate the arguments of a relaunch, and split them as a shell does."""
    from chaoskit.job import check_resume_args

    found = words(text)
    _checked(lambda: check_resume_args(found))
    return found


def log_file(text: str) -> str:
    """Validate the path of the job's log."""
    from chaoskit.job import check_log_file

    return _passed(check_log_file, text)


def log_regex(text: str) -> str:
    """Validate a regular expression for log lines: it needs the named groups `step` and `loss`."""
    from chaoskit.job import log_pattern

    return _passed(log_pattern, text)


def duration(text: str) -> str:
    """Validate a time such as 30m."""
    return _passed(lambda given: check_duration("option", "the time", given), text)


def size(text: str) -> str:
    """Validate a size such as 20GB."""
    return _passed(lambda given: check_size("option", "the size", given), text)


def stops_with(text: str) -> str:
    """Validate the exit code of a job that was told to leave."""
    from chaoskit.job import stop_code

    return _passed(stop_code, text)


def notices(text: str) -> str:
    """Validate who gives notice of preemption: names separated by commas."""
    from chaoskit.faults.node.preempt import check_clouds

    return _passed(check_clouds, text)


def launch(text: str) -> str:
    """Validate a launch mode."""
    from chaoskit.environments.launch.mode import wish

    return _passed(wish, text)


def windows(text: str) -> str:
    """Validate which experiments are run in windows."""
    from chaoskit.engine.windows.keeping import wish

    return _passed(wish, text)


def mount(text: str) -> str:
    """Validate a mount."""
    from chaoskit.job import read_mount

    return _passed(read_mount, text)


def path(text: str) -> str:
    """The absolute path of a file."""
    return str(Path(text).absolute())


def volume(text: str) -> str:
    """Validate a volume claim and its path."""
    from chaoskit.nodes import read_volume

    return _passed(read_volume, text)


def nodes(text: str) -> str:
    """Validate a number of nodes, or a range."""
    from chaoskit.nodes import count_nodes

    return _passed(count_nodes, text)
