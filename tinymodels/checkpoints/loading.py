"""Load: find the newest checkpoint that is whole and valid, and put the state back from it.

OUT/run.json                 the marker: this run has published checkpoints
OUT/checkpoints/             see store.py (often a volume of its own, which may not be mounted)

saving.py shows how a checkpoint is made. Rank 0 alone decides which one to resume from.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.utils._pytree import tree_map

from tinymodels.checkpoints import formats, manifest
from tinymodels.checkpoints.durable import read_tensors, wait_for
from tinymodels.checkpoints.manifest import Invalid, Manifest, Unreadable, saved_world_size, step_of
from tinymodels.checkpoints.saving import Saving
from tinymodels.checkpoints.state import State
from tinymodels.elasticity.collective_io import StorageFailed, on_all_ranks
from tinymodels.preemption.exits import Refused

T = TypeVar("T")


class Checkpoints(Saving):
    """The checkpoints of one run. The docstring of a method says which ranks call it."""

    def newest_valid(self) -> Path | None:
        """All ranks: return the checkpoint to resume from, or None if this run never had one.

        If there are checkpoints but none is valid, or if all are gone, the launch is refused: a person has to look at
        it. Starting from scratch now would bury the run.
        """
        found = self.with_retries("looking at the checkpoints", lambda: self.find() if self.world.leads else None)
        self.trusted, problem = self.world.agree(found)
        if problem is not None:
            raise Refused(problem)
        return self.trusted

    def find(self) -> tuple[Path | None, str | None]:
        """Rank 0: return the newest valid checkpoint, or the reason why the run cannot go on."""
        self.sweep()
        found = self.newest_here()
        copied = self.replica.newest(step_of(found[0]) if found else -1) if self.replica else None
        if copied is not None and (problem := self.mismatch(copied[1])) is None:
            found = self.restore_copy(*copied) or found
        elif copied is not None:
            return None, problem
        if found is not None:
            path, described = found
            if (problem := self.mismatch(described)) is None:
                self.restore_marker()
            return path, problem
        if self.refused:
            return None, (
                f"none of the {len(self.refused)} checkpoints in {self.folder} is valid; "
                f"restore one, or move them and {self.marker} away to start from scratch"
            )
        if not self.may_start_from_scratch():
            return None, (
                f"checkpoints are missing: this run has published some in {self.folder}, and "
                f"there is none; is the volume mounted? remove {self.marker} to start from scratch"
            )
        return None, None

    def newest_here(self) -> tuple[Path, Manifest] | None:
        """Rank 0: return the newest valid checkpoint of the first store. Report the reason for each refused one."""
        for path in self.newest_first():
            try:
                return path, self.examine(path)
            except Invalid as reason:
                self.refused.add(path)
                self.world.say(f"refused {path.name}: {reason}")
        return None

    def examine(self, path: Path) -> Manifest:
        """Rank 0: validate a checkpoint. A read error of the storage is tried again."""
        for attempt in range(1, self.ATTEMPTS):
            try:
                return self.validate(path)
            except (Unreadable, OSError):
                time.sleep(self.PAUSE * attempt)
        try:
            return self.validate(path)
        except OSError as problem:
            raise Unreadable(str(problem)) from None

    def restore_copy(self, copy: Path, described: Manifest) -> tuple[Path, Manifest] | None:
        """Rank 0: restore a checkpoint from the second store. Returns None if that fails."""
        assert self.replica is not None
        try:
            self.replica.copy(copy, self)
        except (OSError, Invalid) as problem:
            self.world.say(f"{copy} could not be restored: {problem}")
            return None
        self.world.say(f"restored {copy.name} from {copy.parent}: it was lost here, or never came to be")
        return self.path(step_of(copy)), described

    def restore_marker(self) -> None:
        """Rank 0: write the marker if an earlier launch was killed before it could."""
        try:
            self.write_marker()
        except OSError as problem:
            self.world.say(f"the marker cannot be written: {problem}")

    def may_start_from_scratch(self) -> bool:
        """Rank 0: there is no checkpoint. Return True if this run never had one."""
        return not self.marker.exists()

    def mismatch(self, found: Manifest) -> str | None:
        """Return why a valid checkpoint does not belong to this run: another world size, or other options."""
        size, step = found["world_size"], found["step"]
        if size != self.world.size and not self.config.global_batch:
            return (
                f"the checkpoint of step {step} was saved by a world size of {size}, this run has "
                f"a world size of {self.world.size}: start it with {size} ranks (a run that begins "
                "with --global-batch may change them)"
            )
        then = found["about"]
        changed = [k for k in sorted(then | self.about) if then.get(k) != self.about.get(k)]
        if changed:
            listed = ", ".join(f"{k} was {then.get(k)}, is {self.about.get(k)}" for k in changed)
            return f"the checkpoint of step {step} belongs to another configuration: {listed}"
        return None

    def read(self, state: State, path: Path) -> None:
        """All ranks: put the state back from a checkpoint that has been validated.

        Tensors are read into new memory, so nothing live changes before everything has been read. Each rank reads what
        it holds today, whichever ranks wrote it.
        """
        tensors = tree_map(blank, state.save_sharded())
        # One read after the other: a rank that fails alone must not leave the others waiting in the collective read.
        what = f"reading {path.name}"
        self.with_retries(what, lambda: self.wait_for_files(path), attempts=1)
        self.with_retries(what, lambda: formats.read(tensors, path, self.group))
        shared = self.with_retries(what, lambda: read_tensors(path / "shared.pt"))
        local = self.with_retries(what, lambda: self.read_local(path))
        state.restore_sharded(tensors)
        state.restore_shared(shared)
        if local is None:
            state.start_local(self.world.rank)
        else:
            state.restore_local(local)

    def with_retries(self, what: str, part: Callable[[], T], *, attempts: int = Saving.ATTEMPTS) -> T:
        """All ranks: do a part each, and again if a disk fails."""
        for attempt in range(1, attempts + 1):
            try:
                return on_all_ranks(self.world, part)
            except StorageFailed as failed:
                problem = failed
                self.world.say(f"{what} failed, attempt {attempt} of {attempts}: {problem}")
                time.sleep(self.PAUSE * attempt)
        raise Refused(f"{what} failed: {problem}")

    def wait_for_files(self, path: Path) -> None:
        """All ranks: wait until this host can see all files. Rank 0 may have validated them on another host."""
        if not self.world.leads:
            wait_for([path / manifest.NAME], self.SEEN)
            wait_for((path / name for name in manifest.file_names(path)), self.SEEN)

    def read_local(self, path: Path) -> dict[str, Any] | None:
        """Return this rank's own part, or None if there was no such rank.

        The manifest tells. A missing file does not: on a shared file system it may just not be visible yet.
        """
        if self.world.rank >= saved_world_size(path):
            return None
        return read_tensors(self.rank_file(path, self.world.rank))


def blank(leaf: Any) -> Any:
    return torch.empty_like(leaf) if isinstance(leaf, torch.Tensor) else leaf
