"""Preserve times: damage must not make a checkpoint the newest for a job that asks the file system."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

#: The clock of a file system may stand still for this long, in seconds.
TICK = 0.002


@contextmanager
def unnoticed(out: Path, names: Iterable[str]) -> Iterator[None]:
    """Change these files below `out` without changing the times of directories, or the order of the last changes in
    them.

    The time at which an entry itself was changed (ctime) cannot be set. Entries that were changed later than the
    touched ones are renewed in their old order.
    """
    touched = {out / own for name in names for own in (PurePosixPath(name), *PurePosixPath(name).parents)}
    directories = {path: path.lstat() for path in touched if path.is_dir() and not path.is_symlink()}
    changed = {each: each.lstat().st_ctime_ns for directory in directories for each in directory.iterdir()}
    try:
        yield
    finally:
        # The deepest first: renewing an entry changes no time of the directory that it is in.
        for path in sorted(directories, key=lambda path: len(path.parts), reverse=True):
            if not path.is_dir():
                continue
            os.utime(path, ns=(directories[path].st_atime_ns, directories[path].st_mtime_ns))
            # An entry that was gone and is back has the time at which it was written.
            entries = sorted(path.iterdir(), key=lambda each: changed.get(each, each.lstat().st_mtime_ns))
            first = next((at for at, each in enumerate(entries) if each in touched), len(entries))
            _renew(entries[first:])


def _renew(entries: Iterable[Path]) -> None:
    last = 0
    for path in entries:
        if not os.path.lexists(path) or path.is_symlink():
            continue
        while True:
            os.chmod(path, stat.S_IMODE(path.stat().st_mode))
            if (now := path.stat().st_ctime_ns) > last:
                break
            time.sleep(TICK)
        last = now
