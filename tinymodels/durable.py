"""Files that outlive a power cut, and what a failing disk says, said as an OSError.

A file is on the disk when it has been fsynced, and its name when the folder has been that holds it: the names of new
folders too. What was not may be there after a power cut, or not, or in part, one thing without the other.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch


def write_tensors(path: Path, content: dict[str, Any]) -> None:
    with disk_errors(), path.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())


def read_tensors(path: Path) -> dict[str, Any]:
    """Tensors and plain values; `weights_only` executes nothing that a file might contain."""
    return torch.load(path, map_location="cpu", weights_only=True)


def write_bytes(path: Path, content: bytes) -> None:
    """A new file; its name is on the disk once its folder is."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """The old text or the new one, whole, at every instant."""
    temporary = path.with_name(f".tmp-{path.name}")
    write_bytes(temporary, text.encode())
    os.replace(temporary, path)
    sync_folder(path.parent)


def checksum(path: Path, *, sync: bool = False) -> str:
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def make_folder(path: Path) -> None:
    """A folder with those above it, and all their names on the disk; where it is there already, its name at least.

    For it may be there by the hand of a launch that was killed before it came to that.
    """
    if not path.parent.is_dir():
        make_folder(path.parent)
    path.mkdir(exist_ok=True)
    with suppress(PermissionError):  # a folder above ours, which we may pass through and not open
        sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """What another library has written."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Names live in their folder: without this, a power cut may undo a rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def wait_for(paths: Iterable[Path], seconds: float) -> None:
    """Until all of them can be seen: names that another host has made may appear late. OSError if they do not."""
    deadline = time.monotonic() + seconds
    for path in paths:
        while not path.exists():
            if time.monotonic() > deadline:
                raise FileNotFoundError(f"{path} has not appeared within {seconds:g} s")
            time.sleep(0.05)


@contextmanager
def disk_errors() -> Iterator[None]:
    """On a disk that is full, torch.save raises RuntimeError: its archive is not what it should be.

    That the disk said so first is only in the context of the error. Let the disk speak.
    """
    try:
        yield
    except RuntimeError as made_of_it:
        if isinstance(made_of_it.__context__, OSError):
            raise made_of_it.__context__ from None
        raise


@contextmanager
def safetensors_errors() -> Iterator[None]:
    """What safetensors says of a disk, said as an OSError."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as made_of_it:
        raise OSError(str(made_of_it)) from None
