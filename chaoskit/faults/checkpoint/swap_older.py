"""`swap_older`: a file of a checkpoint is that of an older checkpoint, as after a copy that mixed up two."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.checkpoint.alike import alike
from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class SwapOlder:
    """See `swap_older`."""

    name = "swap_older"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        name = site.largest()
        self._source(name, site)
        return (name,)

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        source = self._source(name, site)
        shutil.copyfile(site.original(source), site.out / name)
        return {"of": source}

    def describe(self, which: str) -> str:
        return f"put an older checkpoint's file into {which}"

    def _source(self, name: str, site: DamageSite) -> str:
        """The same file of the next older checkpoint; for the oldest one, of the next newer."""
        at = site.every.index(site.checkpoint)
        others = [*site.every[at + 1 :], *reversed(site.every[:at])]
        for other in others:
            if found := alike(name, other.files):
                return found[0]
        raise LookupError(f"no other checkpoint has a file such as {name}")


@fault("swap_older", Damage)
def swap_older(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Replace the largest file of the newest whole checkpoint by the same file of the next older one.

    Its time of change stays the same. If all checkpoints are damaged, the oldest one gets the file of the one after
    it. `checkpoints`, `older`, `launches`: see `file_bitflip`. Missed if no other checkpoint has such a file.
    Observed once the file reads back as something else.
    """
    return damage(SwapOlder(), checkpoints=checkpoints, older=older, launches=launches)
