"""`delete`: a file of a checkpoint is gone, or all of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.faults.alike import mark
from chaoskit.faults.damage import Site, damage
from chaoskit.faults.fault import Fault


@dataclass(frozen=True)
class Delete:
    """See `delete`."""

    whole: bool = False
    name = "delete"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        if not self.whole:
            return (site.largest(),)
        # What was written beside it, at the same time, may belong to the whole run, or be a copy in another store.
        own, parts = mark(site.checkpoint, site.every), PurePosixPath(site.largest()).parts
        place = parts[: parts.index(own) + 1] if own in parts else (own,)
        return tuple(name for name in site.checkpoint.files if PurePosixPath(name).parts[: len(place)] == place)

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        path = site.out / name
        path.unlink()
        if self.whole:
            with suppress(OSError):  # there is something else in it
                for folder in path.relative_to(site.out).parents[:-1]:
                    (site.out / folder).rmdir()
        return {"folders": True} if self.whole else {}

    def tell(self, which: str) -> str:
        return f"delete {which}" if self.whole else f"delete the largest file of {which}"


def delete(
    *, whole: bool = False, checkpoints: int | str = 1, older: bool = False, launches: int | None = None
) -> Fault:
    """Remove the largest file of the newest whole checkpoint, and nothing besides; or, if the `whole` of it is to go,
    all of its files, and the directories that are empty then.

    `checkpoints`, `older`, `launches`: see `flip`. Missed where the whole of it is to go and names do not tell one
    checkpoint from another. Observed once they are gone. Raises UsageError for `whole` that is no bool.
    """
    if not isinstance(whole, bool):
        raise UsageError(f"delete: whole must be True or False, not {whole!r}")
    return damage(Delete(whole), checkpoints=checkpoints, older=older, launches=launches)
