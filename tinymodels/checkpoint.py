"""Checkpoints that can be trusted: whole or not there at all, and checked before they are read.

OUT/run.json                 the marker: checkpoints have been published here
OUT/checkpoints/             see store.py (likely a volume of its own, and one day not mounted)

How one is made is in saving.py; here is how one is found again, and read. Rank 0 alone decides what there is.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.utils._pytree import tree_map

from tinymodels import manifest, sharded
from tinymodels.durable import read_tensors, wait_for
from tinymodels.endings import Refused
from tinymodels.manifest import Invalid, Manifest, Unreadable, number, saved_by
from tinymodels.saving import Saving
from tinymodels.state import State
from tinymodels.together import Unwritten, together

T = TypeVar("T")


class Checkpoints(Saving):
    """The checkpoints of one run. Every method says who has to call it."""

    def newest_valid(self) -> Path | None:
        """All ranks: the checkpoint to resume from; rank 0 looks, everyone takes its word.

        None if there never was one. If there are some and none can be trusted, or if there were
        some and all are gone, this is for a person to look at: starting from scratch now would
        bury the run.
        """
        found = self.patiently("looking at the checkpoints", lambda: self.look() if self.world.leads else None)
        self.trusted, problem = self.world.agree(found)
        if problem is not None:
            raise Refused(problem)
        return self.trusted

    def look(self) -> tuple[Path | None, str | None]:
        """Rank 0: the newest that is valid, or why the run cannot go on."""
        self.sweep()
        found = self.newest_here()
        copied = self.replica.newest(number(found[0]) if found else -1) if self.replica else None
        if copied is not None and (problem := self.mismatch(copied[1])) is None:
            found = self.bring_back(*copied) or found
        elif copied is not None:
            return None, problem
        if found is not None:
            path, described = found
            if (problem := self.mismatch(described)) is None:
                self.mark_again()
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
        """Rank 0: the newest that is valid, with its manifest; the others are refused, each with the reason."""
        for path in self.newest_first():
            try:
                return path, self.examine(path)
            except Invalid as reason:
                self.refused.add(path)
                self.world.say(f"refused {path.name}: {reason}")
        return None

    def examine(self, path: Path) -> Manifest:
        """Rank 0: validate it; a storage that has trouble in reading is asked more than once."""
        for attempt in range(1, self.ATTEMPTS):
            try:
                return self.validate(path)
            except (Unreadable, OSError):
                time.sleep(self.PAUSE * attempt)
        try:
            return self.validate(path)
        except OSError as problem:
            raise Unreadable(str(problem)) from None

    def bring_back(self, copy: Path, described: Manifest) -> tuple[Path, Manifest] | None:
        """Rank 0: restore a checkpoint from its copy; None if that fails, which is told."""
        assert self.replica is not None
        try:
            self.replica.bring(copy, self)
        except (OSError, Invalid) as problem:
            self.world.say(f"{copy} could not be restored: {problem}")
            return None
        self.world.say(f"restored {copy.name} from {copy.parent}: it was lost here, or never came to be")
        return self.path(number(copy)), described

    def mark_again(self) -> None:
        """Rank 0: a launch may have been killed before it came to that."""
        try:
            self.mark()
        except OSError as problem:
            self.world.say(f"the marker cannot be written: {problem}")

    def may_start_from_scratch(self) -> bool:
        """Rank 0: there is no checkpoint; is that because there never was one?"""
        return not self.marker.exists()

    def mismatch(self, found: Manifest) -> str | None:
        """A good checkpoint of another run than ours: which world, which choices?"""
        size, step = found["world_size"], found["step"]
        if size != self.world.size and not self.elastic:
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

    # Reading it.

    def read(self, state: State, path: Path) -> None:
        """All ranks: put the state back. Only ever called with a path that was validated."""
        # Read into fresh tensors: nothing live is touched before everything has been read. Each rank
        # reads what it holds today, whichever ranks have written it.
        tensors = tree_map(blank, state.save_sharded())
        # One after the other: who failed alone before they read together would leave the others waiting there.
        what = f"reading {path.name}"
        self.patiently(what, lambda: self.see(path), attempts=1)
        self.patiently(what, lambda: sharded.read(tensors, path, self.aside))
        shared = self.patiently(what, lambda: read_tensors(path / "shared.pt"))
        local = self.patiently(what, lambda: self.read_local(path))
        state.restore_sharded(tensors)
        state.restore_shared(shared)
        if local is None:
            state.start_local(self.world.rank)
        else:
            state.restore_local(local)

    def patiently(self, what: str, part: Callable[[], T], *, attempts: int = Saving.ATTEMPTS) -> T:
        """All ranks: a part each, and once more if a disk fails."""
        for attempt in range(1, attempts + 1):
            try:
                return together(self.world, part)
            except Unwritten as failed:
                problem = failed
                self.world.say(f"{what} failed, attempt {attempt} of {attempts}: {problem}")
                time.sleep(self.PAUSE * attempt)
        raise Refused(f"{what} failed: {problem}")

    def see(self, path: Path) -> None:
        """All ranks: wait until all of it is there. It was validated by rank 0, perhaps on another host."""
        if not self.world.leads:
            wait_for([path / manifest.NAME], self.SEEN)
            wait_for((path / name for name in manifest.listed(path)), self.SEEN)

    def read_local(self, path: Path) -> dict[str, Any] | None:
        """This rank's own part, or None if there was no such rank.

        The manifest knows; whether a file can be seen is no answer, on a file system that is shared.
        """
        if self.world.rank >= saved_by(path):
            return None
        return read_tensors(self.part(path, self.world.rank))


def blank(leaf: Any) -> Any:
    return torch.empty_like(leaf) if isinstance(leaf, torch.Tensor) else leaf
