"""Directories that are for the user alone, whatever the umask, and how they are opened for one run."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_MODE = 0o700


def make_directory(path: Path, *, exist_ok: bool = False) -> None:
    """Make a directory that no other user can enter. One that exists keeps its mode: its owner may have shared it.
    Raises OSError."""
    try:
        os.mkdir(path, _MODE)
    except FileExistsError:
        if not exist_ok or not path.is_dir():
            raise
        return
    os.chmod(path, _MODE)


def make_directories(path: Path) -> None:
    """The same with all directories above that are missing. Raises OSError."""
    if not path.parent.is_dir():
        make_directories(path.parent)
    make_directory(path, exist_ok=True)


def open_directory(path: Path, more: int) -> Callable[[], None]:
    """Let others into a directory by these bits of its mode; returns what closes it again. Raises OSError."""
    before = stat.S_IMODE(path.stat().st_mode)
    if before | more != before:
        path.chmod(before | more)

    def close() -> None:
        with suppress(OSError):  # it is gone
            path.chmod(before)

    return close
