"""`side_by_side`: reads the files of a large record in a few processes.

A reader is a fresh interpreter. It gets one path after the other, and answers each with the packed record of that
process. If a reader cannot be started or has died, this process reads its files.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from chaoskit.analysis.record.column import Packing
from chaoskit.analysis.record.process_record import ProcessRecord, RecordFiles, one_by_one
from chaoskit.engine.fresh_interpreter import start_module

#: The bytes of a record from which readers save more time than their start takes, and the maximum number of readers.
LARGE, MOST = 256 << 20, 8
#: The number of files that a reader is given in advance.
_AHEAD = 2


def record_files(*, keeps: bool = False) -> RecordFiles:
    """Make the reader of a run's record, which uses as many processes as save time."""
    return RecordFiles(keeps=keeps, several=side_by_side)


def side_by_side(paths: Sequence[Path]) -> Iterator[ProcessRecord]:
    """Read each of these files, in order; in separate processes if there is much to read."""
    readers = min(len(os.sched_getaffinity(0)), len(paths), MOST)
    if readers < 2 or sum(map(_size, paths)) < LARGE:
        yield from one_by_one(paths)
        return
    with ExitStack() as stack:
        own = [stack.enter_context(_ReaderProcess()) for _ in range(readers)]
        for at, path in enumerate(paths[: readers * _AHEAD]):
            own[at % readers].ask(path)
        for at, path in enumerate(paths):
            reader = own[at % readers]
            record = reader.answer()
            if at + readers * _AHEAD < len(paths):
                reader.ask(paths[at + readers * _AHEAD])
            yield record if record is not None else next(one_by_one([path]))


class _ReaderProcess:
    """One process that reads records. Once it has failed, it answers nothing more."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = start_module(__name__)

    def __enter__(self) -> _ReaderProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def ask(self, path: Path) -> None:
        """Ask it to read a file."""
        if self._process is not None:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(os.fsencode(path.absolute()) + b"\0")
                self._process.stdin.flush()
            except OSError:
                self.__exit__()

    def answer(self) -> ProcessRecord | None:
        """The record of the file that it was asked for first; None if it has failed."""
        if self._process is None:
            return None
        assert self._process.stdout is not None
        try:
            record: ProcessRecord = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.__exit__()
            return None
        return record


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _serve() -> None:
    """Answer the paths from the standard input, each ended by a zero byte, on the standard output."""
    asked = b""
    while piece := os.read(0, 1 << 16):
        *paths, asked = (asked + piece).split(b"\0")
        for path in paths:
            (record,) = one_by_one([Path(os.fsdecode(path))])
            if record.lifetime is not None:
                record.lifetime.steps.pack(Packing())
            pickle.dump(record, sys.stdout.buffer, protocol=pickle.HIGHEST_PROTOCOL)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
