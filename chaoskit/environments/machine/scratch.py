"""The scratch directory of a run: its private TMPDIR, `/tmp/chaoskit-<uid>-<digest>`, named after the run's id.

It is not in the run's directory: jobs make sockets in it, and the address of a Unix socket holds at most 107 bytes.
Its `owner.json` names the harness, so that the directory of a dead harness can be recognised.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from chaoskit.environments.launch import host
from chaoskit.environments.machine import owner
from chaoskit.errors import UsageError
from chaoskit.files import removal
from chaoskit.files.removal import Removed
from chaoskit.protocol.stored_files import read_value

_ROOT = Path("/tmp")
_MNT_DETACH = 2


def path(run_id: str) -> Path:
    """The path of the scratch directory of that run."""
    digest = hashlib.blake2b(run_id.encode(), digest_size=5).hexdigest()
    return _ROOT / f"chaoskit-{os.getuid()}-{digest}"


def make(run_id: str) -> Path:
    """Make the directory; replace one that a dead harness has left. Raises UsageError if that is not possible."""
    made = path(run_id)
    if is_abandoned(made):
        discard(made)
    try:
        made.mkdir(mode=0o700)
        (made / "owner.json").write_text(json.dumps(owner.current()))
    except OSError as error:
        raise UsageError(f"cannot make the temporary directory of the run: {error}") from error
    return made


def remove(run_id: str) -> None:
    """Remove the directory with its content."""
    discard(path(run_id))


def discard(place: Path) -> Removed:
    """Remove a directory with its content, but nothing of a file system that is mounted below: what it shows is not
    ours to remove. Mounts are taken away first; while one stays, so does the directory."""
    for mount in _mounts_below(place):
        with suppress(OSError):  # not ours
            host.call("umount2", os.fsencode(mount), _MNT_DETACH)
    if mounts := _mounts_below(place):
        return Removed(left=[f"{place}: {mounts[0]} is still mounted"])
    return removal.remove(place, within=place.parent)


def _mounts_below(place: Path) -> list[str]:
    """The mount points below a directory, the innermost first."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return []
    # Blanks in paths are written in octal; no path of ours has any.
    found = [target for line in lines if (target := line.split(" ")[4]).startswith(f"{place}{os.sep}")]
    return sorted(found, key=len, reverse=True)


def is_abandoned(place: Path) -> bool:
    """Whether it is a directory of our own user whose `owner.json` names a dead owner."""
    if not is_ours(place):
        return False
    try:
        return owner.is_dead(read_value(place / "owner.json"))
    except (OSError, ValueError):
        return False


def is_ours(place: Path) -> bool:
    """Whether it is a real directory (no link) that belongs to our own user."""
    try:
        found = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def abandoned() -> Iterator[Path]:
    """Every scratch directory of our own user whose owner is dead."""
    yield from (place for place in _ROOT.glob(f"chaoskit-{os.getuid()}-*") if is_abandoned(place))
