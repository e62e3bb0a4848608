"""`zero_fill`: a file of a checkpoint has its size and nothing but zeros, as after a crash before its data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.damage import Site, damage
from chaoskit.faults.fault import Fault


@dataclass(frozen=True)
class ZeroFill:
    """See `zero_fill`."""

    name = "zero_fill"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        return (site.largest(),)

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        path, size = site.out / name, site.size(name)
        os.truncate(path, 0)
        os.truncate(path, size)
        return {}

    def tell(self, which: str) -> str:
        return f"fill the largest file of {which} with zeros"


def zero_fill(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Fill the largest file of the newest whole checkpoint with zeros; its size and its time of change stay.

    `checkpoints`, `older`, `launches`: see `flip`. Observed once it reads back so.
    """
    return damage(ZeroFill(), checkpoints=checkpoints, older=older, launches=launches)
