"""The manifest of a checkpoint: what it consists of, to the bit, and whether that is still so."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from tinymodels.durable import checksum, sync_folder

FORMAT = 1
NAME = "manifest.json"
Manifest = dict[str, Any]


class Invalid(Exception):
    """A checkpoint that is not what was saved; its message is the reason."""


def describe(folder: Path, step: int, world_size: int, about: dict[str, Any]) -> None:
    """Write down what there is, so that it can be known again, once all of it is really on the disk."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    manifest: Manifest = {
        "format": FORMAT,
        "step": step,
        "world_size": world_size,
        "about": about,
        "files": {
            str(path.relative_to(folder)): {
                "bytes": path.stat().st_size,
                "blake2b": checksum(path, sync=True),
            }
            for path in files
        },
    }
    manifest["checksum"] = self_checksum(manifest)
    with (folder / NAME).open("w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder / "sharded")
    sync_folder(folder)


def verify(folder: Path) -> Manifest:
    """Is this, to the last bit, what was described? Nothing is unpickled to find out."""
    try:
        manifest = json.loads((folder / NAME).read_bytes())
    except FileNotFoundError:
        raise Invalid(f"{NAME} is missing") from None
    except ValueError:
        raise Invalid(f"{NAME} is not readable") from None
    if not isinstance(manifest, dict) or manifest.get("checksum") != self_checksum(manifest):
        raise Invalid(f"{NAME} does not match its own checksum")
    if manifest["format"] != FORMAT:
        raise Invalid(f"its format is {manifest['format']}, this program reads {FORMAT}")
    for name, expected in manifest["files"].items():
        file = folder / name
        if not file.is_file():
            raise Invalid(f"{name} is missing")
        if (size := file.stat().st_size) != expected["bytes"]:
            raise Invalid(f"{name} has {size} bytes instead of {expected['bytes']}")
        if checksum(file) != expected["blake2b"]:
            raise Invalid(f"{name} does not match its checksum")
    return manifest


def saved_by(folder: Path) -> int:
    """How many ranks have saved this? (For one that was verified.)"""
    return int(json.loads((folder / NAME).read_bytes())["world_size"])


def self_checksum(manifest: Manifest) -> str:
    rest = {k: v for k, v in manifest.items() if k != "checksum"}
    return hashlib.blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=32).hexdigest()
