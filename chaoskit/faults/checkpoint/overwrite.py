"""`overwrite`: some bytes of a checkpoint are overwritten, as by a stray write."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault
from chaoskit.validation import check_whole


@dataclass(frozen=True)
class Overwrite:
    """See `overwrite`."""

    bytes: int = 64
    seed: int = 0
    name = "overwrite"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        return (self._place(site)[0],)

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        # A copy may be shorter.
        offset = min(self._place(site)[1], max(site.size(name) - 1, 0))
        count, drawn = min(self.bytes, site.size(name) - offset), self._random(site)
        with (site.out / name).open("r+b") as file:
            file.seek(offset)
            before = file.read(count)
            file.seek(offset)
            # XOR with a number that is not 0, so that every byte changes.
            file.write(bytes(byte ^ drawn.randrange(1, 256) for byte in before))
        return {"offset": offset, "bytes": count}

    def describe(self, which: str) -> str:
        return f"overwrite {self.bytes} byte{'' if self.bytes == 1 else 's'} of {which}"

    def _place(self, site: DamageSite) -> tuple[str, int]:
        """The file and the offset in it, drawn evenly from all bytes of the checkpoint."""
        sizes = {name: site.size(name) for name in site.own}
        if not any(sizes.values()):
            raise LookupError("the checkpoint has no bytes to overwrite")
        at = self._random(site).randrange(sum(sizes.values()))
        for name, size in sizes.items():
            if at < size:
                return name, at
            at -= size
        raise AssertionError("unreachable")

    def _random(self, site: DamageSite) -> random.Random:
        return random.Random(f"{self.seed} {site.every.index(site.checkpoint)}")


@fault("overwrite", Damage)
def overwrite(
    *, bytes: int = 64, seed: int = 0, checkpoints: int | str = 1, older: bool = False, launches: int | None = None
) -> Fault:
    """Overwrite `bytes` adjacent bytes of the newest whole checkpoint; sizes and times of change stay the same.

    `seed` draws the place from all bytes of all files. `checkpoints`, `older`, `launches`: see `file_bitflip`.
    Observed once the file reads back as something else. Raises UsageError for a number that is not valid.
    """
    check_whole("overwrite", "bytes", bytes, least=1)
    check_whole("overwrite", "seed", seed)
    return damage(Overwrite(bytes, seed), checkpoints=checkpoints, older=older, launches=launches)
