"""Files that outlive a power cut, and what a failing disk says, said as an OSError."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
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


def write_text(path: Path, text: str) -> None:
    """The old text or the new one, whole, at every instant."""
    temporary = path.with_name(f".tmp-{path.name}")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def checksum(path: Path, *, sync: bool = False) -> str:
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def sync_folder(folder: Path) -> None:
    """Names live in their folder: without this, a power cut may undo a rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
