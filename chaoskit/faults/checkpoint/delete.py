"""`delete`: a file of a checkpoint is gone, or all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chaoskit.faults.checkpoint.alike import mark
from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault
from chaoskit.files.removal import remove, remove_if_empty
from chaoskit.validation import check_flag


@dataclass(frozen=True)
class Delete:
    """See `delete`."""

    whole: bool = False
    name = "delete"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        if not self.whole:
            return (site.largest(),)
        # Files written beside it at the same time may belong to the whole run, or be a copy in another store.
        own, parts = mark(site.checkpoint, site.every), PurePosixPath(site.largest()).parts
        place = parts[: parts.index(own) + 1] if own in parts else (own,)
        return tuple(name for name in site.checkpoint.files if PurePosixPath(name).parts[: len(place)] == place)

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        path = site.out / name
        remove(path, within=site.out.parent)
        if self.whole:
            for folder in path.relative_to(site.out).parents[:-1]:
                if not remove_if_empty(site.out / folder, within=site.out.parent):
                    break
        return {"folders": True} if self.whole else {}

    def describe(self, which: str) -> str:
        return f"delete {which}" if self.whole else f"delete the largest file of {which}"


@fault("delete", Damage)
def delete(
    *, whole: bool = False, checkpoints: int | str = 1, older: bool = False, launches: int | None = None
) -> Fault:
    """Remove the largest file of the newest whole checkpoint, or all its files.

    With `whole` all files go, and the directories that are empty then. `checkpoints`, `older`, `launches`: see
    `file_bitflip`. Missed with `whole` if the names of files do not tell one checkpoint from another. Observed once
    the files are gone. Raises UsageError if `whole` is not a bool.
    """
    return damage(
        Delete(check_flag("delete", "whole", whole)), checkpoints=checkpoints, older=older, launches=launches
    )
