"""`dangling_pointer`: the pointer to the latest checkpoint names one that does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.checkpoint.pointers import point, pointers
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class DanglingPointer:
    """See `dangling_pointer`."""

    name = "dangling_pointer"
    harms = False

    def files(self, site: DamageSite) -> tuple[str, ...]:
        return tuple(one.name for one in pointers(site))

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        (own,) = (one for one in pointers(site) if one.name == name)
        point(site, name, own.word, own.dangling)
        return {"pointer": own.dangling}

    def describe(self, which: str) -> str:
        return "make the pointer name a checkpoint that does not exist"


@fault("dangling_pointer", Damage)
def dangling_pointer(*, launches: int | None = None) -> Fault:
    """Make the pointer to the latest checkpoint name one step more, which nobody saved.

    A pointer is a link, or a small file with the name or the number of a checkpoint. `launches`: see
    `file_bitflip`. Missed if the job keeps no pointer, or only one checkpoint. Observed once the pointer reads back
    so.
    """
    return damage(DanglingPointer(), launches=launches)
