"""Removal: what chaoskit removes lies in a directory of its own, and no link leads it elsewhere.

A path is walked from `within`, a directory of chaoskit's, one name at a time, and no link is followed on the way. A
link itself is removed as what it is. So nothing outside goes, whoever puts a link where, and whenever.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: How deep directories may lie in each other: each level holds a descriptor.
_DEEPEST = 200


@dataclass
class Removed:
    """What came of a removal. `freed`: bytes of the disk that are free again. `left`: a sentence about each thing that
    is still there."""

    freed: int = 0
    left: list[str] = field(default_factory=list)

    def add(self, other: Removed) -> None:
        """Count another removal as well."""
        self.freed += other.freed
        self.left += other.left


def remove(path: Path, *, within: Path) -> Removed:
    """Remove a file, a link, or a directory with its content; nothing happens where there is none. Raises ValueError if
    the path does not lie below `within`."""
    removed = Removed()
    try:
        with _parent(path, within) as (directory, name):
            _remove(directory, name, str(path), removed)
    except FileNotFoundError:
        pass
    except OSError as error:
        removed.left.append(_about(path, error))
    return removed


def empty(path: Path, *, within: Path) -> None:
    """Remove the content of a directory, which itself may be mounted. Raises ValueError if it does not lie below
    `within`, OSError if it is no directory or something is left in it."""
    removed = Removed()
    with _parent(path, within) as (directory, name):
        opened = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            _remove_content(opened, str(path), removed, 1)
        finally:
            os.close(opened)
    if removed.left:
        raise OSError(0, removed.left[0])


def remove_if_empty(path: Path, *, within: Path) -> bool:
    """Remove a directory that is empty; returns whether it was."""
    try:
        with _parent(path, within) as (directory, name):
            os.rmdir(name, dir_fd=directory)
    except OSError:
        return False
    return True


def move(path: Path, to: Path, *, within: Path, into: Path) -> None:
    """Move what lies below `within` to a path below `into`; missing directories above it are made. Raises OSError,
    also if a link is on one of the ways, and ValueError for a path that does not lie below."""
    with _parent(path, within) as (of, name), _parent(to, into, make=True) as (directory, new):
        os.rename(name, new, src_dir_fd=of, dst_dir_fd=directory)


def lies_in(path: Path, within: Path) -> bool:
    """Whether a path lies below `within` with no link on the way, the last name included."""
    try:
        with _parent(path, within) as (directory, name):
            return not stat.S_ISLNK(os.lstat(name, dir_fd=directory).st_mode)
    except (OSError, ValueError):
        return False


def must_lie_in(path: Path, within: Path, *, make: bool = False) -> None:
    """Raises OSError unless all directories between `within` and the path are real ones, ValueError if it does not lie
    below. `make`: make those that are missing."""
    with _parent(path, within, make=make):
        pass


@contextmanager
def _parent(path: Path, within: Path, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """A descriptor of the directory that holds the path, and the path's name in it."""
    top = Path(os.path.abspath(within))
    *above, name = path.absolute().relative_to(top).parts or ("..",)
    if ".." in (*above, name):
        raise ValueError(f"{path} does not lie below {within}")
    directory = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for each in above:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(each, dir_fd=directory)
            try:
                directory, before = os.open(each, _DIRECTORY, dir_fd=directory), directory
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(path)) from None
            os.close(before)
        yield directory, name
    finally:
        os.close(directory)


def _remove(directory: int, name: str, shown: str, removed: Removed, depth: int = 0) -> None:
    try:
        about = os.lstat(name, dir_fd=directory)
        if stat.S_ISDIR(about.st_mode):
            if depth >= _DEEPEST:
                raise OSError(0, f"more than {_DEEPEST} directories lie in each other")
            if about.st_dev != os.fstat(directory).st_dev:
                raise OSError(0, "another file system is mounted there")
            opened = os.open(name, _DIRECTORY, dir_fd=directory)
            try:
                before = len(removed.left)
                _remove_content(opened, shown, removed, depth + 1)
            finally:
                os.close(opened)
            if len(removed.left) > before:
                return  # something in it could not be removed, and the reason is told
            os.rmdir(name, dir_fd=directory)
        else:
            os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return  # somebody else was faster
    except OSError as error:
        removed.left.append(_about(shown, error))
        return
    if about.st_nlink == 1 or stat.S_ISDIR(about.st_mode):
        removed.freed += about.st_blocks * 512


def _remove_content(opened: int, shown: str, removed: Removed, depth: int) -> None:
    for each in os.listdir(opened):
        _remove(opened, each, f"{shown}/{each}", removed, depth)


def _about(path: Path | str, error: OSError) -> str:
    return f"{path}: {error.strerror}"
