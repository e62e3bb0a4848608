"""`sweep`: removes what a killed harness has left behind, and nothing that has a living owner."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.cgroups.run_groups import remove_left
from chaoskit.environments.machine import owner, processes, scratch

_GLOBS = ("runs/*/run.json", "runs/*/slots/*/run.json", "references/*/*/run.json")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Swept:
    """What was removed. `runs`: the directories whose run is now `interrupted`. `processes`: the pids that were
    killed. `paths`: the files and directories that were removed.
    """

    runs: tuple[str, ...] = ()
    processes: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.runs or self.processes or self.paths)


def sweep(root: Path) -> Swept:
    """Clean up after dead harnesses: the unfinished runs under `root` (a `.chaoskit` directory), and every scratch
    directory of our own user.

    A run that cannot be read, belongs to another user or has a living owner is left alone, without an error.
    """
    runs: list[str] = []
    ended: list[int] = []
    removed: list[str] = []
    for path, record in _unfinished(root):
        run_dir, run_id = path.parent, str(record.get("id", path.parent.name))
        if not _PLAIN.fullmatch(run_id):
            continue
        ended += [process.pid for process in processes.end_marked(run_id, run_dir=run_dir)]
        removed += remove_left(run_dir, run_id)
        left = scratch.path(run_id)
        # Of a scratch directory that says nothing of an owner, the run's own is the owner.
        if scratch.is_ours(left) and (scratch.is_abandoned(left) or not (left / "owner.json").exists()):
            removed += _remove(left)
        for door in run_dir.glob("*.sock"):
            removed += _remove(door)
        if run_dir.parent.name == "slots":
            removed += _remove(run_dir)  # a place to try things out: nothing in it is to be kept
            with suppress(OSError):  # while there are others
                run_dir.parent.rmdir()
        elif _interrupt(path, record):
            runs.append(str(run_dir))
    for left in scratch.abandoned():
        removed += _remove(left)
    return Swept(tuple(runs), tuple(ended), tuple(removed))


def _unfinished(root: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The `run.json` of our own runs that say `running` and whose owner is dead, and what they hold."""
    for path in (path for pattern in _GLOBS for path in sorted(root.glob(pattern))):
        try:
            if path.stat().st_uid != os.getuid():
                continue
            record = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        running = isinstance(record, dict) and record.get("status") == "running"
        if running and owner.is_dead(record.get("owner")):
            yield path, record


def _interrupt(path: Path, record: dict[str, Any]) -> bool:
    new = path.with_name(f".run.json.{os.getpid()}")
    try:
        new.write_text(json.dumps({**record, "status": "interrupted"}, indent=2) + "\n")
        os.replace(new, path)
    except OSError:
        new.unlink(missing_ok=True)
        return False  # a full or read-only disk: the next sweep tries again
    return True


def _remove(path: Path) -> list[str]:
    """Remove the file or directory; its name, if it was there and is gone."""
    if not os.path.lexists(path):
        return []
    if path.is_dir() and not path.is_symlink():
        scratch.discard(path)
    else:
        path.unlink(missing_ok=True)
    return [] if os.path.lexists(path) else [str(path)]
