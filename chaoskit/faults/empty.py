"""`empty`: a file of a checkpoint is there and has no bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.damage import Site, damage
from chaoskit.faults.fault import Fault


@dataclass(frozen=True)
class Empty:
    """See `empty`."""

    name = "empty"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        return (site.largest(),)

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        os.truncate(site.out / name, 0)
        return {}

    def tell(self, which: str) -> str:
        return f"empty the largest file of {which}"


def empty(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Leave the largest file of the newest whole checkpoint without a byte; its time of change stays.

    `checkpoints`, `older`, `launches`: see `flip`. Observed once it reads back so.
    """
    return damage(Empty(), checkpoints=checkpoints, older=older, launches=launches)
