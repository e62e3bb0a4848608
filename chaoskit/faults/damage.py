"""Damage at rest: what the faults share that change what checkpoints have left on the disk, while nobody looks.

Each of them is a `Way`, in a file of its own; `Damage` is the action that all of them have: it picks the checkpoints,
keeps the originals as long as they are to come back, leaves the time of the last change as it was, and proves by
digests that a file reads back as something else.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

from chaoskit.capabilities import CanTouchFiles, StoredCheckpoint
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault
from chaoskit.faults.times import unnoticed


@dataclass(frozen=True)
class Site:
    """Where damage is done: the job's `{out}`, the checkpoint that is meant, and all that are there, newest first.
    `kept` has the originals of the files that are being changed."""

    out: Path
    checkpoint: StoredCheckpoint
    every: tuple[StoredCheckpoint, ...]
    kept: Mapping[str, Path]

    @property
    def own(self) -> tuple[str, ...]:
        """The files of the checkpoint that a save wrote; all, where none is known to."""
        return self.checkpoint.written or self.checkpoint.files

    def largest(self) -> str:
        """The largest of its own files; the first by name, where several are."""
        return min(self.own, key=lambda name: (-self.size(name), name))

    def with_copies(self, names: Iterable[str]) -> tuple[str, ...]:
        """These files, and those that hold the same: a job that finds one of them broken is to find no other."""
        every = [one for name in names for one in (name, *self.checkpoint.copies.get(name, ()))]
        return tuple(dict.fromkeys(every))

    def size(self, name: str) -> int:
        return (self.out / name).stat().st_size

    def original(self, name: str) -> Path:
        """A file as it was before anything was damaged."""
        return self.kept.get(name, self.out / name)


class Way(Protocol):
    """A way of damaging one checkpoint: a frozen dataclass of its options.

    `files` are those that it changes, by their names below `{out}`; it raises LookupError where the checkpoint has none
    of the kind. `change` changes one of them, in place, and returns evidence. `harms` is False where the checkpoint
    itself stays what it was. `tell` is a sentence about it, `which` says which checkpoints.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def name(self) -> str: ...
    @property
    def harms(self) -> bool: ...
    def files(self, site: Site) -> Sequence[str]: ...
    def change(self, name: str, site: Site) -> Mapping[str, Any]: ...
    def tell(self, which: str) -> str: ...


@dataclass(frozen=True)
class Damage:
    """Done to the newest `checkpoints`, or to all of them ('all'), the newest one left out if it is to be `older` ones;
    undone after `heal_launches` further launches."""

    way: Way
    checkpoints: int | str = 1
    heal_launches: int | None = None
    older: bool = False
    needs = (CanTouchFiles,)
    heal_after = None

    @property
    def name(self) -> str:
        return self.way.name

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanTouchFiles, world_size: int) -> Mapping[str, Any]:
        every = env.stored_checkpoints()
        first = int(self.older)
        last = max(len(every), first + 1) if isinstance(self.checkpoints, str) else first + self.checkpoints
        if last > len(every):
            raise LookupError(f"there are not {last} whole checkpoints, but {len(every)}")
        out, aside = env.out(), env.aside()
        kept: dict[str, Path] = {}
        files: list[dict[str, Any]] = []
        try:
            sites = [Site(out, one, every, kept) for one in every[first:last]]
            plan = [(site, name) for site in sites for name in site.with_copies(self.way.files(site))]
            with unnoticed(out, [name for _, name in plan]):
                for number, (_, name) in enumerate(plan):
                    kept[name] = aside / str(number)
                    _keep(out / name, kept[name])
                for number, (site, name) in enumerate(plan):
                    files.append({**_before(out / name), "file": name, "kept": str(number)})
                    files[-1].update(self.way.change(name, site))
                    _settle(out / name, files[-1])
            same = [told["file"] for told in files if told["after"] == told["before"]]
            if same:
                raise LookupError(f"{same[0]} was so already")
        except (OSError, LookupError) as error:
            _put_back(out, files, aside)
            shutil.rmtree(aside, ignore_errors=True)
            if isinstance(error, LookupError):
                raise
            raise LookupError(f"the checkpoint cannot be changed: {error}") from error
        if self.heal_launches is None:
            shutil.rmtree(aside, ignore_errors=True)
        applied: dict[str, Any] = {"files": files, "aside": str(aside)}
        if self.way.harms:
            spared = (*every[:first], *every[last:])
            applied |= {"saves": _saves(every[first:last]), "spared": _saves(spared)}
        return applied

    def observed(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Every file reads back as what it was made, or is gone, and its time of change does not tell."""
        seen: dict[str, str | None] = {}
        for told in applied["files"]:
            path = env.out() / told["file"]
            seen[told["file"]] = now = digest(path)
            if now != told["after"] or (now is not None and path.lstat().st_mtime_ns != told["mtime_ns"]):
                return None
        return {"seen": seen}

    def heal(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is still as the damage left it is put back; what the job has since removed or written anew is not."""
        aside = Path(applied["aside"])
        with unnoticed(env.out(), [told["file"] for told in applied["files"]]):
            restored = _put_back(env.out(), applied["files"], aside)
        shutil.rmtree(aside, ignore_errors=True)
        whole = len(restored) == len(applied["files"])
        return {"restored": restored, "mended": applied.get("saves", []) if whole else []}

    def to_json(self) -> dict[str, Any]:
        options = {field.name: getattr(self.way, field.name) for field in fields(self.way)}
        several = {"checkpoints": self.checkpoints} if self.way.harms else {}
        older = {"older": True} if self.older else {}
        return {"kind": self.name, **options, **several, **older, "launches": self.heal_launches}

    def __str__(self) -> str:
        if self.older:
            named = {1: "the newest checkpoint but one", "all": "all checkpoints but the newest"}
            several = f"{self.checkpoints} checkpoints, from the newest but one on"
        else:
            named = {1: "the newest checkpoint", "all": "all checkpoints"}
            several = f"the newest {self.checkpoints} checkpoints"
        told = self.way.tell(named.get(self.checkpoints, several))
        launches = self.heal_launches
        return told if launches is None else f"{told} for {launches} launch{'es' if launches > 1 else ''}"


def digest(path: Path) -> str | None:
    """What a file holds, or where a link leads; None where there is none."""
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except FileNotFoundError:
        return None


def _saves(those: Iterable[StoredCheckpoint]) -> list[dict[str, int]]:
    return [dict(one.save) for one in those]


def _keep(path: Path, place: Path) -> None:
    """Copy it; and what an older checkpoint shares with it, by a hard link, is not to change with it."""
    shutil.copy2(path, place, follow_symlinks=False)
    if path.lstat().st_nlink > 1:
        path.unlink()
        shutil.copy2(place, path, follow_symlinks=False)


def _before(path: Path) -> dict[str, Any]:
    found = path.lstat()
    times = {"mtime_ns": found.st_mtime_ns, "atime_ns": found.st_atime_ns}
    return {"before": digest(path), "size": found.st_size, **times}


def _settle(path: Path, told: dict[str, Any]) -> None:
    """Silent damage leaves the time of the last change alone."""
    if os.path.lexists(path):
        os.utime(path, ns=(told["atime_ns"], told["mtime_ns"]), follow_symlinks=False)
    told["after"] = digest(path)


def _put_back(out: Path, files: Iterable[Mapping[str, Any]], aside: Path) -> list[str]:
    """Undo the changes that nobody has touched since; the names of the files."""
    restored = []
    for told in files:
        path, original = out / told["file"], aside / told["kept"]
        changed_since = "after" in told and digest(path) != told["after"]
        if told.get("folders"):
            path.parent.mkdir(parents=True, exist_ok=True)
        if changed_since or not path.parent.is_dir() or not os.path.lexists(original):
            continue
        path.unlink(missing_ok=True)
        shutil.copy2(original, path, follow_symlinks=False)
        restored.append(told["file"])
    return restored


def damage(way: Way, *, checkpoints: int | str = 1, older: bool = False, launches: int | None = None) -> Fault:
    """The fault that does it; raises UsageError for numbers of checkpoints or launches that are not positive."""
    if not isinstance(older, bool):
        raise UsageError(f"{way.name}: older must be True or False, not {older!r}")
    for value, name in ((checkpoints, "checkpoints"), (launches, "launches")):
        other = "all" if name == "checkpoints" else None
        if value != other and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise UsageError(f"{way.name}: {name} must be a whole number from 1 or {other!r}, not {value!r}")
    return Fault(Damage(way, checkpoints, launches, older))


def check_seed(name: str, seed: int) -> None:
    """Raises UsageError unless it is a whole number."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UsageError(f"{name}: seed must be a whole number, not {seed!r}")
