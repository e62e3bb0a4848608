"""`empty`: a file of a checkpoint exists and has no bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class Empty:
    """See `empty`."""

    name = "empty"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        return (site.largest(),)

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        os.truncate(site.out / name, 0)
        return {}

    def describe(self, which: str) -> str:
        return f"empty the largest file of {which}"


@fault("empty", Damage)
def empty(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Cut the largest file of the newest whole checkpoint to zero bytes; its time of change stays the same.

    `checkpoints`, `older`, `launches`: see `file_bitflip`. Observed once the file reads back so.
    """
    return damage(Empty(), checkpoints=checkpoints, older=older, launches=launches)
