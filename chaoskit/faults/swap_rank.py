"""`swap_rank`: the part of one rank in a checkpoint is that of another rank, as after a copy that mixed two up."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.alike import alike
from chaoskit.faults.damage import Site, damage, digest
from chaoskit.faults.fault import Fault


@dataclass(frozen=True)
class SwapRank:
    """See `swap_rank`."""

    name = "swap_rank"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        for name in sorted(site.checkpoint.files, key=lambda name: (-site.size(name), name)):
            if self._source(name, site) is not None:
                return (name,)
        raise LookupError("no two files of the checkpoint are of the same name but for a number, and differ")

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        source = self._source(name, site)
        assert source is not None
        shutil.copyfile(site.original(source), site.out / name)
        return {"of": source}

    def tell(self, which: str) -> str:
        return f"put another rank's part into {which}"

    def _source(self, name: str, site: Site) -> str | None:
        own = digest(site.original(name))
        others = alike(name, site.checkpoint.files)
        return next((other for other in others if digest(site.original(other)) != own), None)


def swap_rank(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Put another rank's part in the place of the largest file of the newest whole checkpoint that has its like: a file
    of the same name but for a number, and with other contents. Its time of change stays.

    `checkpoints`, `older`, `launches`: see `flip`. Missed where there are no two such files. Observed once it reads
    back as something else.
    """
    return damage(SwapRank(), checkpoints=checkpoints, older=older, launches=launches)
