"""Write files that survive a power cut, and report a failing disk as an OSError.

A file is on the disk after its fsync. Its name is on the disk after an fsync of the folder that holds it, and so is the
name of a new folder. Without them, any part of it may be missing after a power cut.
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
    """Read tensors and plain values. `weights_only` executes nothing that the file might contain."""
    return torch.load(path, map_location="cpu", weights_only=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a new file. Its name is on the disk after `sync_folder`."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """Replace a file: at every moment it has the whole old text or the whole new text."""
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
    """Create a folder and those above it, with all their names on the disk.

    An existing folder is synced too: the launch that created it may have been killed before it came to that.
    """
    if not path.parent.is_dir():
        make_folder(path.parent)
    path.mkdir(exist_ok=True)
    with suppress(PermissionError):  # a folder above ours that we may pass through but not open
        sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Sync a file that another library has written."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder. Without it, a power cut may undo a rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def wait_for(paths: Iterable[Path], seconds: float) -> None:
    """Wait until all paths are visible: a name that another host has made may appear late. Raises OSError if not."""
    deadline = time.monotonic() + seconds
    for path in paths:
        while not path.exists():
            if time.monotonic() > deadline:
                raise FileNotFoundError(f"{path} has not appeared within {seconds:g} s")
            time.sleep(0.05)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Raise the OSError of a full disk. torch.save raises a RuntimeError that has it only in its context."""
    try:
        yield
    except RuntimeError as problem:
        if isinstance(problem.__context__, OSError):
            raise problem.__context__ from None
        raise


@contextmanager
def safetensors_errors() -> Iterator[None]:
    """Raise an error of safetensors as an OSError."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as problem:
        raise OSError(str(problem)) from None
