"""`InjectedIOErrors`: the errors that a job's storage has at the moment, and the requests that they affect.

Standard library only: it runs in the process that serves the file system.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from chaoskit.capabilities import InjectedIOError
from chaoskit.environments.fusefs.callers import is_dying

#: What changes anything: what a storage refuses that has become read-only (EROFS).
MODIFYING = (
    "create", "mkdir", "symlink", "link", "write", "truncate", "rename", "unlink", "rmdir", "chmod",
)  # fmt: skip
#: How often it is looked whether who waits has been killed, in seconds.
_LOOK = 0.05
_FILES_TOLD = 10


@dataclass
class _Met:
    """An error, and the requests that it has affected."""

    trouble: InjectedIOError
    over: bool = False
    written: int = 0
    count: int = 0
    operations: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    def meets(self, kind: str, paths: tuple[str, ...], size: int) -> bool:
        """Whether the error affects such a request now; `size` are the bytes that it would write."""
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


class InjectedIOErrors:
    """All errors of a storage, and the names that only some sessions see so far. Thread-safe."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._all: dict[int, _Met] = {}
        self._born: dict[str, tuple[int, float]] = {}
        self._interrupted: set[int] = set()
        #: Nodes by the inodes of their network namespaces.
        self._nodes: dict[int, str] = {}
        #: Whether there is any, looked at before anything is found out about a request.
        self.any = False
        self.any_late = False

    def fail(self, trouble: InjectedIOError) -> int:
        """See `CanFailStorage`."""
        with self._news:
            number = len(self._all) + 1
            self._all[number] = _Met(trouble)
            self._count()
        return number

    def know(self, node: str, network: int) -> None:
        """Note which node a network namespace belongs to."""
        with self._news:
            self._nodes = {other: name for other, name in self._nodes.items() if name != node} | {network: node}

    def _is_from(self, thread: int, trouble: InjectedIOError) -> bool:
        """Whether this thread runs on a node that the error affects."""
        if not trouble.nodes:
            return True
        try:
            network = os.stat(f"/proc/{thread}/ns/net").st_ino
        except OSError:  # gone, or the kernel itself
            return False
        return self._nodes.get(network) in trouble.nodes

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
        """Apply the errors to a request. Returns, perhaps late, if the request may continue.

        Raises OSError with the error to answer; EINTR if the process that waits has been killed.
        """
        with self._news:
            for met in list(self._all.values()):
                if met.trouble.late or not met.meets(kind, paths, size) or not self._is_from(thread, met.trouble):
                    continue
                met.met(kind, next(path for path in paths if matches(path, met.trouble.files)))
                if met.trouble.error is not None:
                    number = getattr(errno, met.trouble.error)
                    raise OSError(number, os.strerror(number))
                self._hold(met, unique, thread)

    def interrupt(self, unique: int) -> None:
        """Note that the process that waits for that request got a signal."""
        with self._news:
            self._interrupted.add(unique)
            self._news.notify_all()

    def wrote(self, path: str, size: int, *, thread: int = 0) -> None:
        """Count bytes that were written to that file."""
        with self._news:
            for met in self._all.values():
                if matches(path, met.trouble.files) and self._is_from(thread, met.trouble):
                    met.written += size

    def full(self, *, thread: int) -> bool:
        """Whether the whole storage has no space left, as seen by this thread."""
        with self._news:
            return any(
                met.trouble.error == "ENOSPC"
                and matches("", met.trouble.files)
                and _stands(met)
                and self._is_from(thread, met.trouble)
                for met in self._all.values()
            )

    # Names that others see late.

    def named(self, path: str, session: int) -> None:
        """Note that this session has made a name."""
        if self.any_late:
            with self._news:
                self._born[path] = (session, time.monotonic())

    def told(self, path: str) -> None:
        """Note that a session has learnt of the name anyway, for instance because it could not make it."""
        with self._news:
            self._born.pop(path, None)

    def hides(self, kind: str, path: str, session: int, *, thread: int = 0) -> bool:
        """Whether this session, of which `thread` is part, must not see the name yet."""
        with self._news:
            maker, born = self._born.get(path, (session, 0.0))
            if maker == session:
                return False
            for met in self._all.values():
                late = met.trouble.late and not met.over and matches(path, met.trouble.files)
                young = time.monotonic() - born < (met.trouble.seconds or 0.0)
                if late and young and self._is_from(thread, met.trouble):
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
