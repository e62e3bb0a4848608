"""`Collector`: brings what the ranks write, their events and logs, to the run's directory, where all readers look.

Ranks that see that directory write there themselves. Where each host has a directory of its own, `DirectoryPerHost`
copies what is new: an event file line by line, so that a reader never sees half a line that the writer has finished.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from chaoskit.files.removal import remove

#: What of a host's directory is brought: every file below these.
PARTS = ("events", "logs")
_PIECE = 1 << 20


class Collector(Protocol):
    """Asked before the records are read, and at the end of each launch."""

    def collect(self) -> None:
        """Bring what has been written since; raises OSError where the run's directory cannot be written."""
        ...


class SharedDirectory:
    """For ranks that all write into the run's directory: nothing needs to be brought."""

    def collect(self) -> None:
        """See `Collector`."""


class HostFiles(Protocol):
    """The files of one host, read-only. A host that does not answer has none; it may answer again later."""

    def sizes(self) -> Mapping[str, int]:
        """The files below `PARTS`, by their paths relative to the host's directory, and how many bytes each has."""
        ...

    def read(self, name: str, offset: int, most: int) -> bytes:
        """Up to `most` bytes of a file from `offset` on; raises OSError."""
        ...


class MountedFiles:
    """The files of a host whose directory is mounted, or copied, to `root` on this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def sizes(self) -> Mapping[str, int]:
        """See `HostFiles`."""
        found = {}
        for part in PARTS:
            for directory, _, names in os.walk(self._root / part):
                for path in (os.path.join(directory, name) for name in names):
                    with suppress(OSError):  # gone meanwhile
                        found[os.path.relpath(path, self._root)] = os.path.getsize(path)
        return found

    def read(self, name: str, offset: int, most: int) -> bytes:
        """See `HostFiles`."""
        with (self._root / name).open("rb") as file:
            file.seek(offset)
            return file.read(most)


class DirectoryPerHost:
    """Copies what is new from each of the `hosts`, which are asked for anew each time, into `run_dir`.

    An event file gets the name of its host before its suffix: two hosts may give the same pid to two ranks. A file that
    has become shorter was begun again, and is copied again. What a host has lost stays where it was copied to.
    """

    def __init__(self, run_dir: Path, hosts: Callable[[], Mapping[str, HostFiles]]) -> None:
        self._run_dir = run_dir
        self._hosts = hosts
        self._copied: dict[tuple[str, str], int] = {}

    def collect(self) -> None:
        """See `Collector`."""
        for host, files in self._hosts().items():
            for name, size in sorted(files.sizes().items()):
                done = self._copied.get((host, name), 0)
                if size < done:
                    remove(self._target(host, name), within=self._run_dir)
                    done = 0
                if size > done:
                    self._copied[host, name] = done + self._append(host, name, files, done, size)

    def _append(self, host: str, name: str, files: HostFiles, done: int, size: int) -> int:
        """Copy what lies between; how many bytes that were."""
        whole_lines = name.endswith(".jsonl")
        target = self._target(host, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        copied = 0
        with target.open("ab") as out:
            for piece in _pieces(files, name, done, size):
                kept = piece[: piece.rfind(b"\n") + 1] if whole_lines else piece
                out.write(kept)
                copied += len(kept)
                if len(kept) < len(piece):
                    break  # the next time begins at this line
        return copied

    def _target(self, host: str, name: str) -> Path:
        path = self._run_dir / name
        return path.with_name(f"{path.stem}.{host}{path.suffix}") if path.suffix == ".jsonl" else path


def _pieces(files: HostFiles, name: str, offset: int, until: int) -> Iterator[bytes]:
    """The file in pieces; one that ends in the middle of a line, unless the file does, is read again with more."""
    most = _PIECE
    while offset < until:
        try:
            piece = files.read(name, offset, min(most, until - offset))
        except OSError:
            return  # the host is away; the next time may be better
        if not piece:
            return
        cut = piece.rfind(b"\n") + 1
        if cut == 0 and offset + len(piece) < until:
            most *= 2  # a line longer than that
            continue
        more = offset + len(piece) < until
        yield piece[:cut] if more and cut else piece
        offset += cut if more and cut else len(piece)
