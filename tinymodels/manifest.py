"""The manifest of a checkpoint: what it consists of, to the bit, and whether that is still so.

Each rank vouches for the files that it has written, and rank 0 puts down what it is told. It lists no folder for them:
what another host has written may be seen late, and a file that is not seen would not be missed.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tinymodels.durable import checksum, sync_folder, write_bytes

FORMAT = 2
NAME = "manifest.json"
Manifest = dict[str, Any]
Files = dict[str, dict[str, Any]]


class Invalid(Exception):
    """A checkpoint that is not what was saved; its message is the reason."""


class Unreadable(Invalid):
    """The storage would not say; it may say another time."""


def name_of(step: int) -> str:
    return f"step-{step:08d}"


def number(path: Path) -> int:
    """The step in a checkpoint's name, or -1 if it is not one's."""
    match = re.fullmatch(r"step-(\d+)", path.name)
    return int(match[1]) if match else -1


def own_files(folder: Path, rank: int) -> Iterator[Path]:
    """What a rank has written: its own by their names, and rank 0 everything that bears no rank's."""
    for path in sorted(folder.rglob("*")):
        named = re.fullmatch(r"(?:rank-|__)(\d+)[._].*", path.name)
        if path.is_file() and int(named[1] if named else 0) == rank:
            yield path


def vouch(folder: Path, rank: int) -> Files:
    """This rank's files, with their names and contents really on the disk."""
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "blake2b": checksum(path, sync=True),
        }
        for path in own_files(folder, rank)
    }
    for inner in (path for path in folder.iterdir() if path.is_dir()):
        sync_folder(inner)
    sync_folder(folder)
    return files


def describe(folder: Path, files: Files, **more: Any) -> None:
    """Write down what there is, so that it can be known again."""
    manifest: Manifest = {"format": FORMAT, **more, "files": files}
    manifest["checksum"] = self_checksum(manifest)
    write_bytes(folder / NAME, json.dumps(manifest, indent=1).encode())
    sync_folder(folder)


def verify(folder: Path) -> Manifest:
    """Is this, to the last bit, what was described, and nothing besides? Nothing is unpickled to find out."""
    manifest = read(folder)
    if manifest.get("format") != FORMAT:
        raise Invalid(f"its format is {manifest.get('format')}, this program reads {FORMAT}")
    if (wrong := misshapen(manifest)) is not None:
        raise Invalid(f"{NAME} says nothing that makes sense of {wrong}")
    try:
        for name, expected in manifest["files"].items():
            check(folder / name, name, expected)
        for path in folder.rglob("*"):
            name = path.relative_to(folder).as_posix()
            if name not in manifest["files"] and name != NAME and (path.is_symlink() or not path.is_dir()):
                raise Invalid(f"{name} is not listed in {NAME}")
    except OSError as problem:
        raise Unreadable(f"it cannot be read: {problem}") from None
    return manifest


def check(file: Path, name: str, expected: Mapping[str, Any]) -> None:
    """One file against its entry."""
    if not file.is_file():
        raise Invalid(f"{name} is missing")
    if (size := file.stat().st_size) != expected["bytes"]:
        raise Invalid(f"{name} has {size} bytes instead of {expected['bytes']}")
    if checksum(file) != expected["blake2b"]:
        raise Invalid(f"{name} does not match its checksum")


def read(folder: Path) -> Manifest:
    """What the manifest says; that it was once written so is all that is known then."""
    try:
        manifest = json.loads((folder / NAME).read_bytes())
        right = isinstance(manifest, dict) and manifest.get("checksum") == self_checksum(manifest)
    except FileNotFoundError:
        raise Invalid(f"{NAME} is missing") from None
    except OSError as problem:
        raise Unreadable(f"{NAME} cannot be read: {problem}") from None
    except (ValueError, RecursionError):
        raise Invalid(f"{NAME} is not readable") from None
    if not right:
        raise Invalid(f"{NAME} does not match its own checksum")
    return manifest


def misshapen(manifest: Manifest) -> str | None:
    """The first entry that is not what it should be. A checksum can be right and its author wrong."""
    if not whole(manifest.get("step")):
        return "step"
    if not whole(manifest.get("world_size")) or not manifest["world_size"]:
        return "world_size"
    for name in ("about", "notes", "files"):
        if not isinstance(manifest.get(name), dict):
            return name
    base = manifest.get("base")
    if base is not None and not (isinstance(base, dict) and whole(base.get("step")) and "checksum" in base):
        return "base"
    for name, file in manifest["files"].items():
        inside = PurePosixPath(name)
        if (
            inside.is_absolute()
            or ".." in inside.parts
            or inside.as_posix() != name
            or "\0" in name
            or name == "."
        ):
            return f"a file called {name!r}"
        if not (isinstance(file, dict) and whole(file.get("bytes")) and isinstance(file.get("blake2b"), str)):
            return name
    return None


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def saved_by(folder: Path) -> int:
    """How many ranks have saved this? (For one that was verified.)"""
    return int(json.loads((folder / NAME).read_bytes())["world_size"])


def listed(folder: Path) -> list[str]:
    """The files that it consists of. (For one that was verified.)"""
    return list(json.loads((folder / NAME).read_bytes())["files"])


def self_checksum(manifest: Manifest) -> str:
    rest = {k: v for k, v in manifest.items() if k != "checksum"}
    return hashlib.blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=32).hexdigest()
