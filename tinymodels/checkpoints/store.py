"""A folder of checkpoints: what is in it, what is valid, how a new checkpoint appears, and which old ones are removed.

    .tmp-step-00000030/      being written; a crash leaves it behind, and nobody ever reads it
    step-00000020/           published by one rename, never changed again
        sharded/             torch.distributed.checkpoint: every rank writes its part
        shared.pt            what is equal on all ranks
        rank-00000.pt ...    what differs
        manifest.json        step, world size; size and checksum of every file above

One process at a time changes the folder. Each change is on the disk before the next one begins.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tinymodels.checkpoints import delta
from tinymodels.checkpoints.durable import sync_folder
from tinymodels.checkpoints.manifest import Invalid, Manifest, folder_name, read, step_of, verify

#: Where the tensors may lie. One of these files is there.
TENSORS = ("sharded/.metadata", "sharded.pt", "sharded.safetensors")


class Store:
    """The checkpoints of one folder. Which ones to keep: the newest, the last of each epoch, the best."""

    def __init__(self, folder: Path, keep: int, *, keep_epochs: bool = False, keep_best: bool = False) -> None:
        self.folder, self.keep = folder, keep
        self.keep_epochs, self.keep_best = keep_epochs, keep_best
        self.refused: set[Path] = set()  # found invalid by this launch: they do not count as kept

    def path(self, step: int) -> Path:
        return self.folder / folder_name(step)

    def rank_file(self, folder: Path, rank: int) -> Path:
        """Return the file of one rank in a checkpoint."""
        return folder / f"rank-{rank:05d}.pt"

    def newest_first(self) -> list[Path]:
        """Return every published checkpoint, ordered by step *number*; names sort as text."""
        found = [path for path in self.folder.glob("step-*") if step_of(path) >= 0]
        return sorted(found, key=step_of, reverse=True)

    def validate(self, path: Path) -> Manifest:
        """Return the manifest if the checkpoint is bit for bit what was saved under this name. Else raise `Invalid`."""
        manifest = verify(path)
        if manifest["step"] != step_of(path):
            raise Invalid(f"its manifest is that of step {manifest['step']}")
        for rank in range(manifest["world_size"]):  # the ranks that saved it, not those of today
            if not self.rank_file(path, rank).is_file():
                raise Invalid(f"the part of rank {rank} is missing")
        if "shared.pt" not in manifest["files"] or not any(name in manifest["files"] for name in TENSORS):
            raise Invalid("it does not hold a whole state")
        if manifest.get("base") is not None:
            self.validate_chain(path)
        return manifest

    def validate_chain(self, path: Path) -> None:
        """Verify everything that a delta depends on."""
        for link in delta.chain(path)[1:]:
            try:
                verify(link)
            except Invalid as problem:
                raise type(problem)(f"it depends on {link.name}, where {problem}") from None

    def publish(self, temporary: Path, step: int) -> None:
        """Give a checkpoint its name, in one rename that survives a power cut."""
        final = self.path(step)
        refused = self.folder / f".tmp-refused-{final.name}"
        if final.exists():  # this run has passed the step again, so it had refused this one
            os.rename(final, refused)
        os.rename(temporary, final)
        sync_folder(self.folder)
        self.refused.discard(final)
        shutil.rmtree(refused, ignore_errors=True)

    def prune(self, step: int) -> None:
        """Remove what need not be kept, but never the checkpoint of this step or a later one."""
        published = [path for path in self.newest_first() if step_of(path) <= step]
        keep = self.kept([path for path in published if path not in self.refused])
        self.remove([path for path in published if path not in keep])

    def kept(self, valid: Sequence[Path]) -> set[Path]:
        """Return those to keep."""
        by_step = {step_of(path): path for path in valid}
        found = [candidate(path) for path in valid]
        steps = to_keep(found, newest=self.keep, epochs=self.keep_epochs, best=self.keep_best)
        return {by_step[step] for step in steps if step in by_step}

    def remove(self, paths: Sequence[Path]) -> None:
        """Rename them first, so that half a removal does not look like a damaged checkpoint."""
        hidden = [(path, self.folder / f".tmp-pruned-{path.name}") for path in paths]
        for path, away in hidden:
            os.rename(path, away)
            self.refused.discard(path)
        if hidden:
            sync_folder(self.folder)
        for _, away in hidden:
            shutil.rmtree(away, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what interrupted saves have left behind."""
        for path in self.folder.glob(".tmp-*"):
            shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What retention needs to know of a checkpoint."""

    step: int
    epoch: int | None = None  # of its last step
    loss: float | None = None  # of an evaluation of exactly this state
    base: int | None = None  # the step of the checkpoint that it is a delta to


def candidate(path: Path) -> Candidate:
    """Read it from the manifest. Of an unreadable manifest, only the step is known."""
    try:
        manifest = read(path)
    except Invalid:
        return Candidate(step=step_of(path))
    notes, base = manifest.get("notes", {}), manifest.get("base") or {}
    return Candidate(step=step_of(path), epoch=notes.get("epoch"), loss=notes.get("loss"), base=base.get("step"))


def to_keep(found: Sequence[Candidate], *, newest: int, epochs: bool = False, best: bool = False) -> set[int]:
    """Return the steps to keep, of checkpoints that are all valid, with all bases that they depend on."""
    by_step = {one.step: one for one in sorted(found, key=lambda one: one.step)}
    keep = set(list(by_step)[-max(1, newest) :])
    if epochs:
        keep |= set({one.epoch: step for step, one in by_step.items() if one.epoch is not None}.values())
    if best:
        losses = [(one.loss, -step) for step, one in by_step.items() if one.loss is not None]
        keep |= {-min(losses)[1]} if losses else set()
    return keep | {base for step in keep for base in bases(step, by_step)}


def bases(step: int, by_step: dict[int, Candidate]) -> set[int]:
    """Return the steps that a delta depends on, down to the full checkpoint."""
    found: set[int] = set()
    while (own := by_step.get(step)) is not None and own.base is not None and own.base < step:
        step = own.base
        found.add(step)
    return found
