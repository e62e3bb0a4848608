"""`damage_metadata`: the metadata of a distributed checkpoint, which say where each tensor lies, are not what was
written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chaoskit.faults.damage import Site, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.flip import Flip


@dataclass(frozen=True)
class DamageMetadata:
    """See `damage_metadata`."""

    name = "damage_metadata"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        found = [name for name in site.checkpoint.files if PurePosixPath(name).name == ".metadata"]
        if not found:
            raise LookupError("the checkpoint has no .metadata: it is not one of torch.distributed.checkpoint")
        return tuple(found)

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        return Flip().change(name, site)

    def tell(self, which: str) -> str:
        return f"damage the metadata of {which}"


def damage_metadata(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Flip a bit in the middle of the `.metadata` that torch.distributed.checkpoint has written into the newest whole
    checkpoint; size and time of change stay.

    `checkpoints`, `older`, `launches`: see `flip`. Missed where there are none. Observed once they read back as
    something else.
    """
    return damage(DamageMetadata(), checkpoints=checkpoints, older=older, launches=launches)
