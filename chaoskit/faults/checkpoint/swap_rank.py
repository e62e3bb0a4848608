"""`swap_rank`: the part of one rank in a checkpoint is that of another rank, as after a copy that mixed up two."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.checkpoint.alike import alike
from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage, digest
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class SwapRank:
    """See `swap_rank`."""

    name = "swap_rank"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        for name in sorted(site.checkpoint.files, key=lambda name: (-site.size(name), name)):
            if self._source(name, site) is not None:
                return (name,)
        raise LookupError("no two files of the checkpoint are of the same name but for a number, and differ")

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        source = self._source(name, site)
        assert source is not None
        shutil.copyfile(site.original(source), site.out / name)
        return {"of": source}

    def describe(self, which: str) -> str:
        return f"put another rank's part into {which}"

    def _source(self, name: str, site: DamageSite) -> str | None:
        own = digest(site.original(name))
        others = alike(name, site.checkpoint.files)
        return next((other for other in others if digest(site.original(other)) != own), None)


@fault("swap_rank", Damage)
def swap_rank(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Replace one rank's part of the newest whole checkpoint by that of another rank.

    The part is the largest file that another one resembles: its name differs in a number only, and its contents
    differ. Its time of change stays the same. `checkpoints`, `older`, `launches`: see `file_bitflip`. Missed if
    there are no two such files. Observed once the file reads back as something else.
    """
    return damage(SwapRank(), checkpoints=checkpoints, older=older, launches=launches)
