"""`flip`: a bit of the newest checkpoint is flipped where it lies, as by a bad disk: nothing else gives it away."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.capabilities import CanTouchFiles
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault

#: Which bit of a byte: no high one, which in the exponent of a float would make the damage obvious.
BIT = 4


@dataclass(frozen=True)
class Flip:
    """See `flip`."""

    bits: int
    name = "flip"
    needs = (CanTouchFiles,)
    heal_after = None
    heal_launches = None

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanTouchFiles, world_size: int) -> Mapping[str, Any]:
        stored = env.checkpoint_files()
        try:
            sizes = {name: (env.out() / name).stat().st_size for name in stored.files}
            name = min(sizes, key=lambda name: (-sizes[name], name))
            return {"file": name, **self._damage(env.out() / name), "save": dict(stored.save)}
        except OSError as error:
            raise LookupError(f"the newest checkpoint cannot be changed: {error}") from error

    def _damage(self, path: Path) -> dict[str, Any]:
        begin, size = _payload(path)
        if size < self.bits:
            raise LookupError(f"{path.name}, the largest file of the newest checkpoint, has {size} bytes of data")
        offset = begin + min(size // 2, size - self.bits)
        found, before = path.stat(), _digest(path)
        with path.open("r+b") as file:
            file.seek(offset)
            damaged = bytes(byte ^ 1 << BIT for byte in file.read(self.bits))
            file.seek(offset)
            file.write(damaged)
        # Silent corruption leaves the time of the last change alone.
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        told = {"offset": offset, "bit": BIT, "before": before}
        return {**told, "size": found.st_size, "mtime_ns": found.st_mtime_ns}

    def observed(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        path = env.out() / applied["file"]
        try:
            found, after = path.stat(), _digest(path)
        except FileNotFoundError:
            return None
        untouched = (found.st_size, found.st_mtime_ns) == (applied["size"], applied["mtime_ns"])
        return {"after": after} if untouched and after != applied["before"] else None

    def heal(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "bits": self.bits}

    def __str__(self) -> str:
        return f"flip {'a bit' if self.bits == 1 else f'{self.bits} bits'} of the newest checkpoint"


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


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def flip(*, bits: int = 1) -> Fault:
    """Flip a bit in the middle of the largest file of the newest whole checkpoint; size and time of change stay.

    More `bits` are flipped in as many bytes, side by side. Observed once the file reads back as something else. Raises
    UsageError for a number that is not positive.
    """
    if isinstance(bits, bool) or not isinstance(bits, int) or bits < 1:
        raise UsageError(f"flip: bits must be a whole number from 1, not {bits!r}")
    return Fault(Flip(bits))
