"""`file_bitflip`: a bit of a stored checkpoint flips, as on a bad disk. Nothing else gives it away."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault
from chaoskit.validation import check_whole

#: Which bit of a byte flips. A higher one in the exponent of a float would make the damage obvious.
BIT = 4


@dataclass(frozen=True)
class FileBitflip:
    """See `file_bitflip`."""

    bits: int = 1
    name = "file_bitflip"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        return (site.largest(),)

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        path = site.out / name
        begin, size = _payload(path)
        if size < self.bits:
            raise LookupError(f"{path.name} has {size} bytes of data, too few for {self.bits} flipped bits")
        offset = begin + min(size // 2, size - self.bits)
        with path.open("r+b") as file:
            file.seek(offset)
            damaged = bytes(byte ^ 1 << BIT for byte in file.read(self.bits))
            file.seek(offset)
            file.write(damaged)
        return {"offset": offset, "bit": BIT}

    def describe(self, which: str) -> str:
        return f"flip {'a bit' if self.bits == 1 else f'{self.bits} bits'} of {which}"


def _payload(path: Path) -> tuple[int, int]:
    """The offset and the size of the data of a file: of an archive its largest member, tensors first, else the
    whole file.

    `torch.save` writes an archive; the shards of torch.distributed.checkpoint end with one.
    """
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            members = archive.infolist()
            largest = max(members, key=lambda member: ("/data/" in member.filename, member.compress_size))
            file.seek(largest.header_offset + 26)
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            return largest.header_offset + 30 + name + extra, largest.compress_size
    except (zipfile.BadZipFile, ValueError):
        return 0, path.stat().st_size


@fault("file_bitflip", Damage)
def file_bitflip(
    *, bits: int = 1, checkpoints: int | str = 1, older: bool = False, launches: int | None = None
) -> Fault:
    """Flip a bit in the largest file of the newest whole checkpoint; size and time of change stay the same.

    The bit lies in the middle of the data. More `bits` flip in as many adjacent bytes. `checkpoints` is how many of
    the newest to damage, or 'all'; with `older` the newest one stays intact, and the damage begins with the one
    before it. After `launches` further launches the originals come back (None: never). Observed once the file reads
    back as something else. Raises UsageError for a number that is not positive.
    """
    check_whole("file_bitflip", "bits", bits, least=1)
    return damage(FileBitflip(bits), checkpoints=checkpoints, older=older, launches=launches)
