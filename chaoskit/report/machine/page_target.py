"""`PageTarget`: where pages are published: a directory, or a bucket that fsspec knows."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from chaoskit.errors import UsageError
from chaoskit.report.html import page
from chaoskit.report.machine import publishing

_SCHEME = "://"


class PageTarget(Protocol):
    """Files are published under relative names such as `nights/ID/index.html`."""

    def put(self, file: Path, name: str) -> None:
        """Publish a file of this machine, in place of what had that name. Raises UsageError, or what the client of the
        bucket raises."""

    def names(self, below: str) -> Collection[str]:
        """The names of the directories directly below one; none if it is not there."""

    def address(self, name: str) -> str:
        """Where a file is, for people."""

    def remedy(self, error: Exception) -> str:
        """What to do about an error that one of these raised; "" where that is not known."""


def of(text: str, *, option: str) -> PageTarget:
    """The target that a text names: a path, or a URL such as s3://bucket/path. Raises UsageError, which names the
    `option`, for one that cannot be used."""
    if _SCHEME not in text:
        return PageDirectory(publishing.directory(text, option=option), option)
    scheme = text.partition(_SCHEME)[0]
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError as error:
        raise UsageError(f"{option} {text}: fsspec is not installed: pip install 'chaoskit[publish]'") from error
    try:
        files, root = core.url_to_fs(text)
    except (ImportError, ValueError) as error:
        said = " ".join(str(error).split())
        raise UsageError(f"{option} {text}: files of {scheme}:// cannot be written here: {said}") from error
    return Bucket(files, str(root).rstrip("/"), text.rstrip("/"))


@dataclass(frozen=True)
class PageDirectory:
    """A directory of this machine."""

    path: Path
    option: str

    def put(self, file: Path, name: str) -> None:
        """See `PageTarget`."""
        page.write(file.read_text(errors="surrogateescape"), self.path / name, option=self.option)

    def names(self, below: str) -> Collection[str]:
        """See `PageTarget`."""
        found = self.path / below
        return {each.name for each in found.iterdir()} if found.is_dir() else set()

    def address(self, name: str) -> str:
        """See `PageTarget`."""
        return publishing.shown(self.path / name)

    def remedy(self, error: Exception) -> str:
        """See `PageTarget`: a UsageError has it."""
        return ""

    def __str__(self) -> str:
        return publishing.shown(self.path)


@dataclass(frozen=True)
class Bucket:
    """A directory in a file system of fsspec; `url` is as the user wrote it."""

    files: Any
    root: str
    url: str

    def put(self, file: Path, name: str) -> None:
        """See `PageTarget`. Clients of buckets take the type of a file from its name."""
        target = f"{self.root}/{name}"
        # Object stores have no directories: to make one could make a bucket of a name that was misspelt.
        if not getattr(self.files, "async_impl", False):
            self.files.makedirs(target.rpartition("/")[0], exist_ok=True)
        self.files.put_file(str(file), target)

    def names(self, below: str) -> Collection[str]:
        """See `PageTarget`."""
        self.files.invalidate_cache()
        try:
            found = self.files.ls(f"{self.root}/{below}", detail=False)
        except FileNotFoundError:
            return set()
        return {str(each).rstrip("/").rpartition("/")[2] for each in found}

    def address(self, name: str) -> str:
        """See `PageTarget`."""
        return f"{self.url}/{name}"

    def remedy(self, error: Exception) -> str:
        """See `PageTarget`."""
        if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            return "check the credentials that this machine has for it, and that they may write there"
        if isinstance(error, FileNotFoundError):
            return "make the bucket, or correct its name"
        return ""

    def __str__(self) -> str:
        return self.url
