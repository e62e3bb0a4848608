"""Find and change pointers: the small files or links beside the checkpoints that name the latest one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from chaoskit.faults.checkpoint.alike import mark
from chaoskit.faults.checkpoint.damage import DamageSite
from chaoskit.files.removal import remove

#: A larger file is no pointer.
LARGEST = 4096


@dataclass(frozen=True)
class Pointer:
    """A file or link that contains `word`, which names the newest checkpoint. `older` would name the one before it."""

    name: str
    word: str
    older: str

    @property
    def dangling(self) -> str:
        """The word that would name a checkpoint that does not exist."""
        number = re.findall(r"\d+", self.word)[-1]
        head, _, tail = self.word.rpartition(number)
        return head + str(int(number) + 1).zfill(len(number)) + tail


def pointers(site: DamageSite) -> list[Pointer]:
    """The pointers of the job.

    Raises LookupError if there is none, or no older checkpoint to point to.
    """
    if len(site.every) < 2:
        raise LookupError("there is no older checkpoint that a pointer could name")
    newest, older, *others = [mark(one, site.every) for one in site.every]
    found = [one for name in _small(site.out) if (one := _read(site.out, name, newest, older, others))]
    if not found:
        raise LookupError(
            "the job keeps no pointer: no small file or link beside the checkpoints names the newest"
        )
    return found


def point(site: DamageSite, name: str, word: str, instead: str) -> None:
    """Replace `word` by `instead` in the pointer."""
    path = site.out / name
    if path.is_symlink():
        target = os.readlink(path)
        remove(path, within=site.out.parent)
        path.symlink_to(_replaced(target, word, instead))
    else:
        path.write_text(_replaced(path.read_text(), word, instead))


def _replaced(text: str, word: str, instead: str) -> str:
    return re.sub(rf"(?<!\d){re.escape(word)}(?!\d)", instead, text)


def _small(out: Path) -> Iterator[str]:
    """Every link and every small file below the job's directory."""
    for directory, folders, names in os.walk(out):
        for name in sorted([*names, *folders]):
            path = Path(directory, name)
            if path.is_symlink() or (path.is_file() and 0 < path.stat().st_size <= LARGEST):
                yield str(path.relative_to(out))


def _read(out: Path, name: str, newest: str, older: str, others: list[str]) -> Pointer | None:
    """The pointer that a file is, if it names the newest checkpoint. A file that names others too is a log."""
    if newest in PurePosixPath(name).parts:
        return None
    path = out / name
    try:
        text = os.readlink(path) if path.is_symlink() else path.read_text()
    except ValueError:
        return None
    stems = [(newest, older), (PurePosixPath(newest).stem, PurePosixPath(older).stem)]
    for word, instead in stems:
        if _says(text, word) and not any(_says(text, other) for other in (older, *others)):
            return Pointer(name, word, instead)
    number, instead = (re.findall(r"\d+", mark)[-1] for mark in (newest, older))
    if text.strip().isdecimal() and int(text) == int(number):
        return Pointer(name, text.strip(), str(int(instead)).zfill(len(text.strip())))
    return None


def _says(text: str, word: str) -> bool:
    return re.search(rf"(?<!\d){re.escape(word)}(?!\d)", text) is not None
