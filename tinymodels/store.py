"""A folder of checkpoints: how one appears in it, which there are, whether they are valid, and how old ones go.

    .tmp-step-00000030/      being written; a crash leaves it behind, nobody ever reads it
    step-00000020/           published by one rename, never touched again
        sharded/             torch.distributed.checkpoint: every rank writes its part
        shared.pt            what is equal on all ranks
        rank-00000.pt ...    what is not
        manifest.json        step, world size; size and checksum of every file above

One process at a time changes it. Whatever comes before something else here is on the disk before it.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tinymodels import delta
from tinymodels.durable import sync_folder
from tinymodels.manifest import Invalid, Manifest, name_of, number, read, verify
from tinymodels.retention import Kept, to_keep

#: Where what the ranks hold together may lie; one of them is there.
TOGETHER = ("sharded/.metadata", "sharded.pt", "sharded.safetensors")


class Store:
    """The checkpoints of one folder, oldest to newest."""

    def __init__(self, folder: Path, keep: int, *, keep_epochs: bool = False, keep_best: bool = False) -> None:
        self.folder, self.keep = folder, keep
        self.keep_epochs, self.keep_best = keep_epochs, keep_best
        self.refused: set[Path] = set()  # looked at and found invalid: they count for nothing

    def path(self, step: int) -> Path:
        return self.folder / name_of(step)

    def part(self, folder: Path, rank: int) -> Path:
        """A rank's own file in a checkpoint."""
        return folder / f"rank-{rank:05d}.pt"

    def newest_first(self) -> list[Path]:
        """Every published checkpoint, in the order of its *number*; names are but text."""
        found = [path for path in self.folder.glob("step-*") if number(path) >= 0]
        return sorted(found, key=number, reverse=True)

    def validate(self, path: Path) -> Manifest:
        """Is this, to the last bit, what was saved under this name? `Invalid` says why not."""
        manifest = verify(path)
        if manifest["step"] != number(path):
            raise Invalid(f"its manifest is that of step {manifest['step']}")
        # Whole means: with the parts of all ranks that saved it, however many we are today.
        for rank in range(manifest["world_size"]):
            if not self.part(path, rank).is_file():
                raise Invalid(f"the part of rank {rank} is missing")
        if "shared.pt" not in manifest["files"] or not any(name in manifest["files"] for name in TOGETHER):
            raise Invalid("it does not hold a whole state")
        if manifest.get("base") is not None:
            self.validate_chain(path)
        return manifest

    def validate_chain(self, path: Path) -> None:
        """Of a delta: all that it hangs on."""
        for link in delta.chain(path)[1:]:
            try:
                verify(link)
            except Invalid as problem:
                raise type(problem)(f"it hangs on {link.name}, and there {problem}") from None

    def publish(self, temporary: Path, step: int) -> None:
        """Let it appear, whole, in one instant that outlives a power cut."""
        final = self.path(step)
        refused = self.folder / f".tmp-refused-{final.name}"
        if final.exists():  # we are past it again, so it is one that we refused: out of the way
            os.rename(final, refused)
        os.rename(temporary, final)
        sync_folder(self.folder)
        self.refused.discard(final)
        shutil.rmtree(refused, ignore_errors=True)

    def prune(self, step: int) -> None:
        """Remove what need not be kept, by number; never the one just published or a later one."""
        published = [path for path in self.newest_first() if number(path) <= step]
        keep = self.kept([path for path in published if path not in self.refused])
        self.remove([path for path in published if path not in keep])

    def kept(self, valid: Sequence[Path]) -> set[Path]:
        by_step = {number(path): path for path in valid}
        steps = to_keep(
            [described(path) for path in valid], newest=self.keep, epochs=self.keep_epochs, best=self.keep_best
        )
        return {by_step[step] for step in steps if step in by_step}

    def remove(self, doomed: Sequence[Path]) -> None:
        """Hide them first, for good: half a removal must not look like a damaged checkpoint."""
        hidden = [(path, self.folder / f".tmp-pruned-{path.name}") for path in doomed]
        for path, away in hidden:
            os.rename(path, away)
            self.refused.discard(path)
        if hidden:
            sync_folder(self.folder)
        for _, away in hidden:
            shutil.rmtree(away, ignore_errors=True)

    def sweep(self) -> None:
        """Clear away what crashed saves left behind."""
        for path in self.folder.glob(".tmp-*"):
            shutil.rmtree(path, ignore_errors=True)


def described(path: Path) -> Kept:
    """What a manifest says that retention wants to know; an unreadable one says nothing."""
    try:
        manifest = read(path)
    except Invalid:
        return Kept(step=number(path))
    notes, base = manifest.get("notes", {}), manifest.get("base") or {}
    return Kept(step=number(path), epoch=notes.get("epoch"), loss=notes.get("loss"), base=base.get("step"))
