"""`truncate`: a file of a checkpoint ends half-way, as after a copy that was cut short."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class Truncate:
    """See `truncate`."""

    name = "truncate"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        return (site.largest(),)

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        os.truncate(site.out / name, site.size(name) // 2)
        return {"left": site.size(name)}

    def describe(self, which: str) -> str:
        return f"truncate the largest file of {which}"


@fault("truncate", Damage)
def truncate(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Cut the largest file of the newest whole checkpoint to half its size; its time of change stays the same.

    `checkpoints`, `older`, `launches`: see `file_bitflip`. Observed once the file reads back so.
    """
    return damage(Truncate(), checkpoints=checkpoints, older=older, launches=launches)
