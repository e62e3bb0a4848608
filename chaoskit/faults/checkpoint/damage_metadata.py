"""`damage_metadata`: the metadata of a distributed checkpoint, which say where each tensor lies, are damaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.checkpoint.file_bitflip import FileBitflip
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class DamageMetadata:
    """See `damage_metadata`."""

    name = "damage_metadata"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        found = [name for name in site.checkpoint.files if PurePosixPath(name).name == ".metadata"]
        if not found:
            raise LookupError("the checkpoint has no .metadata: it is not one of torch.distributed.checkpoint")
        return tuple(found)

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        return FileBitflip().change(name, site)

    def describe(self, which: str) -> str:
        return f"damage the metadata of {which}"


@fault("damage_metadata", Damage)
def damage_metadata(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Flip a bit in the `.metadata` file of torch.distributed.checkpoint in the newest whole checkpoint.

    Size and time of change stay the same. `checkpoints`, `older`, `launches`: see `file_bitflip`. Missed if there
    is no such file. Observed once the file reads back as something else.
    """
    return damage(DamageMetadata(), checkpoints=checkpoints, older=older, launches=launches)
