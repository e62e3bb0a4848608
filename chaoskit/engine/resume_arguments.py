"""`ResumeArguments`: what a relaunch appends to the job's command, once there is a checkpoint to resume from.

A job that is told to resume before it has saved dies for want of a file, and nobody would have told it so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.capabilities import CanTouchFiles, StoredCheckpoint
from chaoskit.job import Job


@dataclass(frozen=True)
class ResumeArguments:
    """Those of one run. `run_dir` holds its record, `out` is what the job gets as `{out}`."""

    job: Job
    env: object
    run_dir: Path
    out: Path
    reference: Reference | None

    def words(self) -> list[str]:
        """The arguments for the launch that is next; none if no save has settled yet."""
        if not self.job.resume_args or not self._is_there_a_checkpoint():
            return []
        stored: Sequence[StoredCheckpoint] = ()
        if isinstance(self.env, CanTouchFiles):
            try:
                stored = self.env.stored_checkpoints()
            except LookupError:
                stored = ()
        # Where it is gone, or hidden, the job is told of one that is not there, and must not start from scratch.
        return self.job.resume_words(self.out, newest=lambda glob: newest(self.out, glob, stored) or glob)

    def _is_there_a_checkpoint(self) -> bool:
        """Whether a save has settled; also if the probe cannot see the job's saves, and so cannot tell."""
        if self.reference is None or not self.reference.saves:
            return True
        case = Case(History.read(self.run_dir), self.reference)
        return any(one.settled_at is not None for one in case.checkpoints)


def newest(out: Path, glob: str, stored: Sequence[StoredCheckpoint] = ()) -> str | None:
    """The path below `out`, relative to it, that matches the pattern and belongs to the newest of the `stored`
    checkpoints that has one; if they are not known, the one that was changed last. None if nothing matches."""
    for checkpoint in stored:
        places = {str(place) for name in checkpoint.files for place in _with_parents(name)}
        if found := sorted(place for place in places if _matches(place, glob)):
            return found[0]
    if stored:
        return None
    changed = {path: path.lstat().st_mtime_ns for path in out.glob(glob)}
    latest = max(changed, key=lambda path: (changed[path], path), default=None)
    return os.path.relpath(latest, out) if latest is not None else None


def _with_parents(name: str) -> tuple[PurePosixPath, ...]:
    path = PurePosixPath(name)
    return (path, *path.parents[:-1])


def _matches(place: str, glob: str) -> bool:
    """Whether the parts of a path match those of the pattern, one by one."""
    parts, patterns = PurePosixPath(place).parts, PurePosixPath(glob).parts
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))
