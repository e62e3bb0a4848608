"""`strip_checksums`: a checkpoint is damaged and its checksums are gone. Does the verification notice?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from chaoskit.faults.checkpoint.damage import Damage, DamageSite, damage
from chaoskit.faults.checkpoint.file_bitflip import FileBitflip
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault
from chaoskit.files.removal import remove

#: Files that hold nothing but checksums.
SIDECAR = re.compile(
    r".+\.(sha\d+|md5|b2|b3|blake2[bs]?|blake3|crc\w*|xxh\w*|checksums?|digest|hash)"
    r"|(sha\d*|md5|b2|blake2|checksum)sums?(\.txt)?|checksums?(\.\w+)?",
    re.I,
)
#: The name of an entry that is a checksum, and a value that is one under any name.
NAME = re.compile(
    r"(^|_|\b)(sha\d*|md5|b2sum|blake2?[bs]?\d*|crc\w*|xxh\w*|checksums?|digests?|hash(es)?|etag)$", re.I
)
VALUE = re.compile(r"(\w+[:-])?[0-9a-f]{32,}", re.I)
#: Larger files are not read.
LARGEST = 64 * 2**20


@dataclass(frozen=True)
class StripChecksums:
    """See `strip_checksums`."""

    name = "strip_checksums"
    harms = True

    def files(self, site: DamageSite) -> tuple[str, ...]:
        names = site.checkpoint.files
        found = [name for name in names if _is_sidecar(name) or _stripped(site.out / name) is not None]
        if not found:
            raise LookupError(
                "no file of the checkpoint is known to have checksums (JSON, or a name like *.sha256)"
            )
        largest = site.largest()
        return (*found, *([] if largest in found else [largest]))

    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]:
        path = site.out / name
        if _is_sidecar(name):
            remove(path, within=site.out.parent)
            return {"removed": True}
        stripped = _stripped(path)
        if stripped is None:
            return FileBitflip().change(name, site)
        path.write_text(stripped)
        return {"stripped": True}

    def describe(self, which: str) -> str:
        return f"flip a bit and strip the checksums of {which}"


def _is_sidecar(name: str) -> bool:
    return SIDECAR.fullmatch(PurePosixPath(name).name) is not None


def _stripped(path: Path) -> str | None:
    """The JSON of a file without its checksums; None if it is no JSON, or has none."""
    if path.stat().st_size > LARGEST:
        return None
    try:
        text = path.read_text()
        value = json.loads(text)
    except ValueError:
        return None
    without = _without(value)
    if without == value:
        return None
    return json.dumps(without, indent=1 if "\n" in text.strip() else None)


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if not NAME.search(key) and not _is_hash(each)}
    if isinstance(value, list):
        return [_without(each) for each in value if not _is_hash(each)]
    return value


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and VALUE.fullmatch(value) is not None


@fault("strip_checksums", Damage)
def strip_checksums(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Remove the checksums of the newest whole checkpoint, and flip a bit in its largest file.

    A verification that passes without checksums fails open. Removed are entries of JSON files that are checksums by
    their names or values, and files of checksums (`*.sha256`, `MD5SUMS`). Times of change stay the same.
    `checkpoints`, `older`, `launches`: see `file_bitflip`. Missed if no file is known to have checksums. Observed
    once all these files read back as something else, or are gone.
    """
    return damage(StripChecksums(), checkpoints=checkpoints, older=older, launches=launches)
