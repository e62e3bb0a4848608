"""`strip_checksums`: a checkpoint is damaged and its checksums are gone: what does a verification say of that?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from chaoskit.faults.damage import Site, damage
from chaoskit.faults.fault import Fault
from chaoskit.faults.flip import Flip

#: Files of checksums alone, beside what they are of, or of all files at once.
SIDECAR = re.compile(
    r".+\.(sha\d+|md5|b2|b3|blake2[bs]?|blake3|crc\w*|xxh\w*|checksums?|digest|hash)"
    r"|(sha\d*|md5|b2|blake2|checksum)sums?(\.txt)?|checksums?(\.\w+)?",
    re.I,
)
#: The name of an entry that is a checksum; and a checksum, whatever it is called.
NAME = re.compile(
    r"(^|_|\b)(sha\d*|md5|b2sum|blake2?[bs]?\d*|crc\w*|xxh\w*|checksums?|digests?|hash(es)?|etag)$", re.I
)
VALUE = re.compile(r"(\w+[:-])?[0-9a-f]{32,}", re.I)
#: A larger file is not looked into.
LARGEST = 64 * 2**20


@dataclass(frozen=True)
class StripChecksums:
    """See `strip_checksums`."""

    name = "strip_checksums"
    harms = True

    def files(self, site: Site) -> tuple[str, ...]:
        names = site.checkpoint.files
        found = [name for name in names if _is_sidecar(name) or _stripped(site.out / name) is not None]
        if not found:
            raise LookupError("no file of the checkpoint is known to hold checksums (JSON, or such as *.sha256)")
        largest = site.largest()
        return (*found, *([] if largest in found else [largest]))

    def change(self, name: str, site: Site) -> Mapping[str, Any]:
        path = site.out / name
        if _is_sidecar(name):
            path.unlink()
            return {"removed": True}
        stripped = _stripped(path)
        if stripped is None:
            return Flip().change(name, site)
        path.write_text(stripped)
        return {"stripped": True}

    def tell(self, which: str) -> str:
        return f"flip a bit and strip the checksums of {which}"


def _is_sidecar(name: str) -> bool:
    return SIDECAR.fullmatch(PurePosixPath(name).name) is not None


def _stripped(path: Path) -> str | None:
    """The JSON of a file without its checksums; None where it is none, or holds none."""
    if path.stat().st_size > LARGEST:
        return None
    try:
        text = path.read_text()
        told = json.loads(text)
    except ValueError:
        return None
    without = _without(told)
    if without == told:
        return None
    return json.dumps(without, indent=1 if "\n" in text.strip() else None)


def _without(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _without(each) for key, each in told.items() if not NAME.search(key) and not _is_hash(each)}
    if isinstance(told, list):
        return [_without(each) for each in told if not _is_hash(each)]
    return told


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and VALUE.fullmatch(value) is not None


def strip_checksums(*, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """Take the checksums out of the newest whole checkpoint, and flip a bit of its largest file: does its verification
    fail open? Entries of JSON files that are checksums by their names or values go, and files of checksums (`*.sha256`,
    `MD5SUMS`). Times of change stay.

    `checkpoints`, `older`, `launches`: see `flip`. Missed where no file is known to hold checksums. Observed once all
    these read back as something else, or are gone.
    """
    return damage(StripChecksums(), checkpoints=checkpoints, older=older, launches=launches)
