"""`damage_manifest`: the file that lists the contents of a checkpoint is damaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.checkpoint.file_bitflip import FileBitflip
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault

#: A larger file is no manifest.
LARGEST = 64 * 2**20


@dataclass(frozen=True)
class DamageManifest:
    """See `damage_manifest`."""

    name = "damage_manifest"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        found = [name for name in site.checkpoint.files if self._describes(name, site)]
        if not found:
            raise LookupError("no file of the checkpoint is text that names its other files")
        return tuple(found)

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        return FileBitflip().change(name, site)

    def describe(self, which: str) -> str:
        return f"damage the manifest of {which}"

    def _describes(self, name: str, site: DamageSite) -> bool:
        """Whether it is text that names another file of the checkpoint."""
        if site.size(name) > LARGEST:
            return False
        try:
            text = (site.out / name).read_text()
        except ValueError:
            return False
        others = {PurePosixPath(other).name for other in site.checkpoint.files if other != name}
        return any(other in text for other in others)


@fault("damage_manifest", Damage)
def damage_manifest(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Flip a bit in the manifest of the newest whole checkpoint.

    A manifest is any text file of the checkpoint that names other files of it. Size and time of change stay the
    same. `checkpoints`, `older`, `launches`: see `file_bitflip`. Missed if there is no such file. Observed once the
    file reads back as something else.
    """
    return damage(DamageManifest(), checkpoints=checkpoints, older=older, launches=launches)
