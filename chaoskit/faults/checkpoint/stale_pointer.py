"""`stale_pointer`: the pointer to the latest checkpoint still names the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.checkpoint.pointers import point, pointers
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class StalePointer:
    """See `stale_pointer`."""

    name = "stale_pointer"
    harms = False

    def files(self, site: DamageSite) -> tuple[str, ...]:
        return tuple(one.name for one in pointers(site))

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        (own,) = (one for one in pointers(site) if one.name == name)
        point(site, name, own.word, own.older)
        return {"pointer": own.older}

    def describe(self, which: str) -> str:
        return "put the pointer back to an older checkpoint"


@fault("stale_pointer", Damage)
def stale_pointer(*, launches: int | None = None) -> Fault:
    """Make the pointer to the latest checkpoint name the one before it.

    A pointer is a link, or a small file with the name or the number of a checkpoint. `launches`: see
    `file_bitflip`. Missed if the job keeps no pointer, or only one checkpoint. Observed once the pointer reads back
    so.
    """
    return damage(StalePointer(), launches=launches)
