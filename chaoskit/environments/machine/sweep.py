"""`sweep`: removes what a killed harness has left behind, and nothing that has a living owner."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chaoskit.environments.cgroups.run_groups import remove_left
from chaoskit.environments.machine import owner, processes, scratch
from chaoskit.files.removal import Removed, lies_in, remove, remove_if_empty
from chaoskit.files.whole_files import replace_file
from chaoskit.protocol.stored_files import read_value
from chaoskit.schema import conform

_GLOBS = ("runs/*/run.json", "runs/*/slots/*/run.json", "references/*/*/run.json")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Swept:
    """What was removed. `runs`: the directories whose run is now `interrupted`. `processes`: the pids that were
    killed. `paths`: the files and directories that were removed. `left`: a sentence about each that could not be.
    """

    runs: tuple[str, ...] = ()
    processes: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.runs or self.processes or self.paths or self.left)


def sweep(root: Path) -> Swept:
    """Clean up after dead harnesses: the unfinished runs under `root` (a `.chaoskit` directory), and every scratch
    directory of our own user.

    A run that cannot be read, belongs to another user or has a living owner is left alone, without an error.
    """
    runs: list[str] = []
    ended: list[int] = []
    removed: list[str] = []
    failed: list[str] = []

    def remove_one(path: Path, do: Callable[[], Removed]) -> None:
        was_there = os.path.lexists(path)
        failed.extend(do().left)
        if was_there and not os.path.lexists(path):
            removed.append(str(path))

    for path, record in _unfinished(root):
        run_dir, run_id = path.parent, str(record.get("id", path.parent.name))
        if not _PLAIN.fullmatch(run_id):
            continue
        ended += [process.pid for process in processes.end_marked(run_id, run_dir=run_dir)]
        removed += remove_left(run_dir, run_id)
        left = scratch.path(run_id)
        # Of a scratch directory that says nothing of an owner, the run's own is the owner.
        if scratch.is_ours(left) and (scratch.is_abandoned(left) or not (left / "owner.json").exists()):
            remove_one(left, partial(scratch.discard, left))
        for door in run_dir.glob("*.sock"):
            remove_one(door, partial(remove, door, within=root))
        if run_dir.parent.name == "slots":
            # A place to try things out: nothing in it is to be kept.
            remove_one(run_dir, partial(remove, run_dir, within=root))
            remove_if_empty(run_dir.parent, within=root)  # there may be others
        elif _interrupt(path, record):
            runs.append(str(run_dir))
    for left in scratch.abandoned():
        remove_one(left, partial(scratch.discard, left))
    return Swept(tuple(runs), tuple(ended), tuple(removed), tuple(failed))


def _unfinished(root: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The `run.json` of our own runs that say `running` and whose owner is dead, and what they hold. What lies behind a
    link is none of ours."""
    for path in (path for pattern in _GLOBS for path in sorted(root.glob(pattern))):
        try:
            if not lies_in(path, root) or path.lstat().st_uid != os.getuid():
                continue
            record = conform(dict[str, Any], read_value(path))
        except (OSError, ValueError):
            continue
        if record.get("status") == "running" and owner.is_dead(record.get("owner")):
            yield path, record


def _interrupt(path: Path, record: dict[str, Any]) -> bool:
    try:
        replace_file(path, (json.dumps({**record, "status": "interrupted"}, indent=2) + "\n").encode())
    except OSError:
        return False  # a full or read-only disk: the next sweep tries again
    return True
