"""`swap_older`: a file of a checkpoint is the one of an older checkpoint, as after a copy that mixed two up."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.alike import alike
from chaoskit.faults.damage import Site, damage
from chaoskit.faults.fault import Fault


@dataclass(frozen=True)
class SwapOlder:
    """See `swap_older`."""

    name = "swap_older"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        name = site.largest()
        self._source(name, site)
        return (name,)

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        source = self._source(name, site)
        shutil.copyfile(site.original(source), site.out / name)
        return {"of": source}

    def tell(self, which: str) -> str:
        return f"put an older checkpoint's file into {which}"

    def _source(self, name: str, site: Site) -> str:
        """The same file of the next older checkpoint; the oldest has to take one of a newer."""
        at = site.every.index(site.checkpoint)
        others = [*site.every[at + 1 :], *reversed(site.every[:at])]
        for other in others:
            if found := alike(name, other.files):
                return found[0]
        raise LookupError(f"no other checkpoint has a file such as {name}")


def swap_older(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Put the same file of the next older checkpoint in the place of the largest file of the newest whole one; its time
    of change stays. Of all checkpoints, the oldest gets the file of the one after it.

    `checkpoints`, `older`, `launches`: see `flip`. Missed where no other checkpoint has such a file. Observed once it
    reads back as something else.
    """
    return damage(SwapOlder(), checkpoints=checkpoints, older=older, launches=launches)
