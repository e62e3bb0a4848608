"""`overwrite`: bytes of a checkpoint are overwritten at random, as by a stray write."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.faults.damage import Site, check_seed, damage
from chaoskit.faults.fault import Fault


@dataclass(frozen=True)
class Overwrite:
    """See `overwrite`."""

    bytes: int = 64
    seed: int = 0
    name = "overwrite"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        return (self._place(site)[0],)

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        # A copy may be a little shorter.
        offset = min(self._place(site)[1], max(site.size(name) - 1, 0))
        count, drawn = min(self.bytes, site.size(name) - offset), self._random(site)
        with (site.out / name).open("r+b") as file:
            file.seek(offset)
            before = file.read(count)
            file.seek(offset)
            # No byte stays by chance.
            file.write(bytes(byte ^ drawn.randrange(1, 256) for byte in before))
        return {"offset": offset, "bytes": count}

    def tell(self, which: str) -> str:
        return f"overwrite {self.bytes} byte{'' if self.bytes == 1 else 's'} of {which}"

    def _place(self, site: Site) -> tuple[str, int]:
        """The file and the offset: all bytes of the checkpoint are alike."""
        sizes = {name: site.size(name) for name in site.own}
        if not any(sizes.values()):
            raise LookupError("the checkpoint has no bytes to overwrite")
        at = self._random(site).randrange(sum(sizes.values()))
        for name, size in sizes.items():
            if at < size:
                return name, at
            at -= size
        raise AssertionError("unreachable")

    def _random(self, site: Site) -> random.Random:
        return random.Random(f"{self.seed} {site.every.index(site.checkpoint)}")


def overwrite(
    *, bytes: int = 64, seed: int = 0, checkpoints: int | str = 1, older: bool = False, launches: int | None = None
) -> Fault:
    """Overwrite so many bytes, side by side, at a place of the newest whole checkpoint that `seed` draws from all bytes
    of all its files; sizes and times of change stay.

    `checkpoints`, `older`, `launches`: see `flip`. Observed once the file reads back as something else. Raises
    UsageError for a number that cannot be.
    """
    if isinstance(bytes, bool) or not isinstance(bytes, int) or bytes < 1:
        raise UsageError(f"overwrite: bytes must be a whole number from 1, not {bytes!r}")
    check_seed("overwrite", seed)
    return damage(Overwrite(bytes, seed), checkpoints=checkpoints, older=older, launches=launches)
