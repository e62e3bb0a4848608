"""Times: what is changed on the quiet must not become the newest by it, for a job that asks the file system which
checkpoint is the newest."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

#: A clock of files may stand still for so long, in seconds.
TICK = 0.002


@contextmanager
def unnoticed(out: Path, names: Iterable[str]) -> Iterator[None]:
    """What is done meanwhile to these files below `out` changes neither the times of directories nor who was changed
    last of all that lie side by side.

    The time at which an entry was changed itself (ctime) cannot be set: those that were changed later than what was
    touched are renewed in their old order.
    """
    touched = {out / own for name in names for own in (PurePosixPath(name), *PurePosixPath(name).parents)}
    directories = {path: path.lstat() for path in touched if path.is_dir() and not path.is_symlink()}
    changed = {each: each.lstat().st_ctime_ns for directory in directories for each in directory.iterdir()}
    try:
        yield
    finally:
        # The deepest first: to renew an entry changes no time of the directory that it is in.
        for path in sorted(directories, key=lambda path: len(path.parts), reverse=True):
            if not path.is_dir():
                continue
            os.utime(path, ns=(directories[path].st_atime_ns, directories[path].st_mtime_ns))
            # What was gone and is there again has the time at which it was written.
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
