"""`Troubles`: what is wrong with the storage of a job just now, and which requests meet it.

Standard library only: it lives in the process that serves the file system.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from chaoskit.capabilities import Trouble
from chaoskit.environments.callers import is_dying

#: What changes anything: what a storage refuses that has become read-only (EROFS).
MODIFYING = (
    "create", "mkdir", "symlink", "link", "write", "truncate", "rename", "unlink", "rmdir", "chmod",
)  # fmt: skip
#: How often it is looked whether who waits has been killed, in seconds.
_LOOK = 0.05
_FILES_TOLD = 10


@dataclass
class _Met:
    """A trouble, and what has met it."""

    trouble: Trouble
    over: bool = False
    written: int = 0
    count: int = 0
    operations: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    def meets(self, kind: str, paths: tuple[str, ...], size: int) -> bool:
        """Whether such a request meets it now; `size` are the bytes that it would write."""
        trouble = self.trouble
        return (
            not self.over
            and (trouble.times is None or self.count < trouble.times)
            and (not trouble.operations or kind in trouble.operations)
            and any(matches(path, trouble.files) for path in paths)
            and (self.written + size > trouble.after_bytes or self.written >= trouble.after_bytes)
        )

    def met(self, kind: str, path: str) -> None:
        self.count += 1
        self.operations[kind] = self.operations.get(kind, 0) + 1
        if path not in self.files and len(self.files) < _FILES_TOLD:
            self.files.append(path)


class Troubles:
    """All troubles of a storage, and the names that are known to few so far. For several threads."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._all: dict[int, _Met] = {}
        self._born: dict[str, tuple[int, float]] = {}
        self._interrupted: set[int] = set()
        #: Whether there is any, looked at before anything is found out about a request.
        self.any = False
        self.any_late = False

    def fail(self, trouble: Trouble) -> int:
        """See `CanFailStorage`."""
        with self._news:
            number = len(self._all) + 1
            self._all[number] = _Met(trouble)
            self._count()
        return number

    def mend(self, number: int) -> None:
        """See `CanFailStorage`."""
        with self._news:
            if number in self._all:
                self._all[number].over = True
            self._count()
            self._news.notify_all()

    def met(self, number: int) -> dict[str, Any]:
        """See `CanFailStorage`; raises LookupError where there was none of that number."""
        with self._news:
            found = self._all[number]
            return {
                "count": found.count,
                "operations": dict(found.operations),
                "files": [os.fsencode(path).decode(errors="replace") for path in found.files],
            }

    def meet(self, kind: str, paths: tuple[str, ...], *, unique: int, thread: int, size: int = 0) -> None:
        """Let a request meet what there is: returns, perhaps late, where it may go on.

        Raises OSError with what it is to be answered; EINTR where who waited for it was killed.
        """
        with self._news:
            for met in list(self._all.values()):
                if met.trouble.late or not met.meets(kind, paths, size):
                    continue
                met.met(kind, next(path for path in paths if matches(path, met.trouble.files)))
                if met.trouble.error is not None:
                    number = getattr(errno, met.trouble.error)
                    raise OSError(number, os.strerror(number))
                self._hold(met, unique, thread)

    def interrupt(self, unique: int) -> None:
        """Who waits for the answer to that request was sent a signal."""
        with self._news:
            self._interrupted.add(unique)
            self._news.notify_all()

    def wrote(self, path: str, size: int) -> None:
        """So many bytes have been written to that file."""
        with self._news:
            for met in self._all.values():
                if matches(path, met.trouble.files):
                    met.written += size

    @property
    def full(self) -> bool:
        """Whether the storage as a whole has no space left."""
        with self._news:
            return any(
                met.trouble.error == "ENOSPC" and matches("", met.trouble.files) and _stands(met)
                for met in self._all.values()
            )

    # Names that others see late.

    def named(self, path: str, session: int) -> None:
        """A name is there that was not, made by that session."""
        if self.any_late:
            with self._news:
                self._born[path] = (session, time.monotonic())

    def told(self, path: str) -> None:
        """Somebody has learnt that the name is there in spite of all, as by being refused to make it."""
        with self._news:
            self._born.pop(path, None)

    def hides(self, kind: str, path: str, session: int) -> bool:
        """Whether that session is not to see that name yet."""
        with self._news:
            maker, born = self._born.get(path, (session, 0.0))
            if maker == session:
                return False
            for met in self._all.values():
                late = met.trouble.late and not met.over and matches(path, met.trouble.files)
                if late and time.monotonic() - born < (met.trouble.seconds or 0.0):
                    met.met(kind, path)
                    return True
            return False

    def _hold(self, met: _Met, unique: int, thread: int) -> None:
        seconds = met.trouble.seconds
        due = None if seconds is None else time.monotonic() + seconds
        try:
            while not met.over and (due is None or time.monotonic() < due):
                left = None if due is None else max(0.0, due - time.monotonic())
                if unique in self._interrupted:
                    # By any signal: one that does not kill is no reason for a file system to give up.
                    if is_dying(thread):
                        raise OSError(errno.EINTR, os.strerror(errno.EINTR))
                    left = _LOOK if left is None else min(left, _LOOK)
                self._news.wait(left)
        finally:
            self._interrupted.discard(unique)

    def _count(self) -> None:
        self.any = any(not met.over for met in self._all.values())
        self.any_late = any(met.trouble.late and not met.over for met in self._all.values())


def _stands(met: _Met) -> bool:
    trouble = met.trouble
    used_up = trouble.times is not None and met.count >= trouble.times
    return not met.over and not used_up and (met.written >= trouble.after_bytes or met.count > 0)


def matches(path: str, pattern: str) -> bool:
    """Whether a path from the root, or its last part, matches the shell pattern."""
    return fnmatchcase(path, pattern) or fnmatchcase(path.rpartition("/")[2], pattern)
