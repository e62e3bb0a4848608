"""`damage_manifest`: the file that says what a checkpoint consists of is not what was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chaoskit.faults.damage import Site, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.flip import Flip

#: A larger file is no manifest.
LARGEST = 64 * 2**20


@dataclass(frozen=True)
class DamageManifest:
    """See `damage_manifest`."""

    name = "damage_manifest"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        found = [name for name in site.checkpoint.files if self._describes(name, site)]
        if not found:
            raise LookupError("no file of the checkpoint is text that names its other files")
        return tuple(found)

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        return Flip().change(name, site)

    def tell(self, which: str) -> str:
        return f"damage the manifest of {which}"

    def _describes(self, name: str, site: Site) -> bool:
        """Whether it is text that names another file of the checkpoint."""
        if site.size(name) > LARGEST:
            return False
        try:
            text = (site.out / name).read_text()
        except ValueError:
            return False
        others = {PurePosixPath(other).name for other in site.checkpoint.files if other != name}
        return any(other in text for other in others)


def damage_manifest(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Flip a bit in the middle of the manifest of the newest whole checkpoint: of each file that is text and names
    others of its files. Size and time of change stay.

    `checkpoints`, `older`, `launches`: see `flip`. Missed where the job writes no such file. Observed once it reads
    back as something else.
    """
    return damage(DamageManifest(), checkpoints=checkpoints, older=older, launches=launches)
