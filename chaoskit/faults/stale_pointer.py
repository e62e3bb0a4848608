"""`stale_pointer`: what says which checkpoint is the latest says what it said before the newest was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.damage import Site, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.pointers import point, pointers


@dataclass(frozen=True)
class StalePointer:
    """See `stale_pointer`."""

    name = "stale_pointer"
    harms = False

    def files(self, site: Site) -> tuple[str, ...]:
        return tuple(one.name for one in pointers(site))

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        (own,) = (one for one in pointers(site) if one.name == name)
        point(site, name, own.word, own.older)
        return {"pointer": own.older}

    def tell(self, which: str) -> str:
        return "put the pointer back to an older checkpoint"


def stale_pointer(*, launches: int | None = None) -> Fault:
    """Let the pointer to the latest checkpoint (a link, or a small file with its name or number) name the one before.

    `launches`: see `flip`. Missed where the job keeps none, or one checkpoint only. Observed once it reads back so.
    """
    return damage(StalePointer(), launches=launches)
