"""A tree, written out: real directories, files with their holes, symlinks, and names that share a file."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from chaoskit.analysis.crash_model.contents import Contents, File
from chaoskit.analysis.crash_model.tree import ROOT, Directory, Symlink, Tree
from chaoskit.errors import UsageError


def materialise(tree: Tree, contents: Contents, directory: Path, times: Mapping[int, float] | None = None) -> None:
    """Write a tree out below a directory, which is made where there is none. Nothing is forced to the disk.

    `times` says when what has a number was last changed, in seconds of the monotonic clock: a job may take the newest.
    Raises UsageError where something is there already, or a name leads out of the directory, OSError where the disk is
    full.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise UsageError(f"materialise: {directory} must be empty")
    written: dict[int, str] = {}
    made: list[tuple[str, int]] = []
    since = time.time() - time.monotonic()
    for path, number in tree.walk():
        if path and not {"", ".", ".."}.isdisjoint(path.split("/")):
            raise UsageError(f"materialise: the journal names {path!r}, which no file can be called")
        inode, target = tree.inodes[number], os.path.join(directory, path)
        if isinstance(inode, Symlink):
            os.symlink(inode.to, target)
        elif isinstance(inode, Directory):
            if path:
                os.mkdir(target, 0o700)
        elif number in written:
            os.link(written[number], target)
        else:
            written[number] = target
            _write(inode, contents, target)
        made.append((target, number))
    # Last, since a mode may forbid to write into it, and writing changes the time; what lies in it first.
    for target, number in reversed(made):
        inode = tree.inodes[number]
        if isinstance(inode, Directory) and number != ROOT:
            os.chmod(target, inode.mode)
        if times is not None and number in times:
            os.utime(target, (since + times[number],) * 2, follow_symlinks=False)


def _write(file: File, contents: Contents, target: str) -> None:
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(handle, file.size)
        for start, piece in contents.pieces(file):
            while piece:
                done = os.pwrite(handle, piece, start)
                start, piece = start + done, piece[done:]
        os.fchmod(handle, file.mode)
    finally:
        os.close(handle)
