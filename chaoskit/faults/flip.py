"""`flip`: a bit of a checkpoint is flipped where it lies, as by a bad disk: nothing else gives it away."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.faults.damage import Site, damage
from chaoskit.faults.fault import Fault

#: Which bit of a byte: no high one, which in the exponent of a float would make the damage obvious.
BIT = 4


@dataclass(frozen=True)
class Flip:
    """See `flip`."""

    bits: int = 1
    name = "flip"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        return (site.largest(),)

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        path = site.out / name
        begin, size = _payload(path)
        if size < self.bits:
            raise LookupError(f"{path.name}, which is to be changed, has {size} bytes of data")
        offset = begin + min(size // 2, size - self.bits)
        with path.open("r+b") as file:
            file.seek(offset)
            damaged = bytes(byte ^ 1 << BIT for byte in file.read(self.bits))
            file.seek(offset)
            file.write(damaged)
        return {"offset": offset, "bit": BIT}

    def tell(self, which: str) -> str:
        return f"flip {'a bit' if self.bits == 1 else f'{self.bits} bits'} of {which}"


def _payload(path: Path) -> tuple[int, int]:
    """Where the data of a file begins, and how much there is: of an archive (`torch.save` makes one; the shards of
    torch.distributed.checkpoint end with one) its largest member, tensors first, and else the whole file."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            members = archive.infolist()
            largest = max(members, key=lambda member: ("/data/" in member.filename, member.compress_size))
            file.seek(largest.header_offset + 26)
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            return largest.header_offset + 30 + name + extra, largest.compress_size
    except (zipfile.BadZipFile, ValueError):
        return 0, path.stat().st_size


def flip(*, bits: int = 1, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Flip a bit in the middle of the largest file of the newest whole checkpoint; size and time of change stay.

    More `bits` are flipped in as many bytes, side by side. `checkpoints` are so many of the newest, or 'all';
    `older` leaves the newest one as it is, and begins with the one before it. After `launches` further launches the
    files are put back as they were (None: never). Observed once the file reads back as something else. Raises
    UsageError for a number that is not positive.
    """
    if isinstance(bits, bool) or not isinstance(bits, int) or bits < 1:
        raise UsageError(f"flip: bits must be a whole number from 1, not {bits!r}")
    return damage(Flip(bits), checkpoints=checkpoints, older=older, launches=launches)
