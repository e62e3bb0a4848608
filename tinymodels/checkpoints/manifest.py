"""The manifest lists every file of a checkpoint with its size and checksum, so a damaged checkpoint can be recognised.

Each rank reports the files that it has written, and rank 0 writes the manifest from these reports. Rank 0 does not list
the folder instead: a file of another host may become visible late, and would be left out without a word.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tinymodels.checkpoints.durable import checksum, sync_folder, write_bytes

FORMAT = 2
NAME = "manifest.json"
Manifest = dict[str, Any]
Files = dict[str, dict[str, Any]]


class Invalid(Exception):
    """The checkpoint is not what was saved. The message is the reason."""


class Unreadable(Invalid):
    """The storage reported an error. Another attempt may succeed."""


def folder_name(step: int) -> str:
    return f"step-{step:08d}"


def step_of(path: Path) -> int:
    """Return the step in the name of a checkpoint, or -1 if it is not the name of one."""
    match = re.fullmatch(r"step-(\d+)", path.name)
    return int(match[1]) if match else -1


def own_files(folder: Path, rank: int) -> Iterator[Path]:
    """Yield the files that a rank has written: those with its number, and for rank 0 those without any number."""
    for path in sorted(folder.rglob("*")):
        numbered = re.fullmatch(r"(?:rank-|__)(\d+)[._].*", path.name)
        if path.is_file() and int(numbered[1] if numbered else 0) == rank:
            yield path


def checksum_files(folder: Path, rank: int) -> Files:
    """Return size and checksum of this rank's files, after their contents and names are on the disk."""
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
    """Write the manifest of a checkpoint."""
    manifest: Manifest = {"format": FORMAT, **more, "files": files}
    manifest["checksum"] = self_checksum(manifest)
    write_bytes(folder / NAME, json.dumps(manifest, indent=1).encode())
    sync_folder(folder)


def verify(folder: Path) -> Manifest:
    """Return the manifest if the folder holds exactly the files in it, bit for bit. Nothing is unpickled for that."""
    manifest = read(folder)
    if manifest.get("format") != FORMAT:
        raise Invalid(f"its format is {manifest.get('format')}, this program reads {FORMAT}")
    if (entry := malformed_entry(manifest)) is not None:
        raise Invalid(f"{NAME} has no valid entry for {entry}")
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
    """Compare one file with its entry."""
    if not file.is_file():
        raise Invalid(f"{name} is missing")
    if (size := file.stat().st_size) != expected["bytes"]:
        raise Invalid(f"{name} has {size} bytes instead of {expected['bytes']}")
    if checksum(file) != expected["blake2b"]:
        raise Invalid(f"{name} does not match its checksum")


def read(folder: Path) -> Manifest:
    """Return the manifest if it matches its own checksum. The files that it lists are not checked."""
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


def malformed_entry(manifest: Manifest) -> str | None:
    """Return the first entry with a wrong type. The checksum may match although the author made a mistake."""
    if not is_count(manifest.get("step")):
        return "step"
    if not is_count(manifest.get("world_size")) or not manifest["world_size"]:
        return "world_size"
    for name in ("about", "notes", "files"):
        if not isinstance(manifest.get(name), dict):
            return name
    base = manifest.get("base")
    if base is not None and not (isinstance(base, dict) and is_count(base.get("step")) and "checksum" in base):
        return "base"
    for name, file in manifest["files"].items():
        path = PurePosixPath(name)
        outside = path.is_absolute() or ".." in path.parts or name == "."
        if outside or path.as_posix() != name or "\0" in name:
            return f"a file called {name!r}"
        if not (isinstance(file, dict) and is_count(file.get("bytes")) and isinstance(file.get("blake2b"), str)):
            return name
    return None


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def saved_world_size(folder: Path) -> int:
    """Return how many ranks saved a checkpoint that is verified already."""
    return int(json.loads((folder / NAME).read_bytes())["world_size"])


def file_names(folder: Path) -> list[str]:
    """Return the files of a checkpoint that is verified already."""
    return list(json.loads((folder / NAME).read_bytes())["files"])


def self_checksum(manifest: Manifest) -> str:
    rest = {k: v for k, v in manifest.items() if k != "checksum"}
    return hashlib.blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=32).hexdigest()
