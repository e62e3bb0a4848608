"""`zero_fill`: a file of a checkpoint has its size and only zeros, as after a crash before its data were written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class ZeroFill:
    """See `zero_fill`."""

    name = "zero_fill"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        return (site.largest(),)

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        path, size = site.out / name, site.size(name)
        os.truncate(path, 0)
        os.truncate(path, size)
        return {}

    def describe(self, which: str) -> str:
        return f"fill the largest file of {which} with zeros"


@fault("zero_fill", Damage)
def zero_fill(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Fill the largest file of the newest whole checkpoint with zeros; size and time of change stay the same.

    `checkpoints`, `older`, `launches`: see `file_bitflip`. Observed once the file reads back so.
    """
    return damage(ZeroFill(), checkpoints=checkpoints, older=older, launches=launches)
