"""`Damage`: the action of the faults that change stored checkpoints while the job is down.

Each fault is a `DamageMethod` in a file of its own. `Damage` picks the checkpoints, keeps the originals if they are
to come back, preserves the time of the last change, and proves by digests that a file reads back as something else.
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
from chaoskit.faults.checkpoint.times import unnoticed
from chaoskit.faults.fault import Fault
from chaoskit.files.removal import must_lie_in, remove
from chaoskit.validation import check_flag, check_whole, is_all


@dataclass(frozen=True)
class DamageSite:
    """The files that a method works on: the job's `{out}`, the checkpoint to damage, and all checkpoints there,
    newest first. `kept` has the originals of the files that are being changed.
    """

    out: Path
    checkpoint: StoredCheckpoint
    every: tuple[StoredCheckpoint, ...]
    kept: Mapping[str, Path]

    @property
    def own(self) -> tuple[str, ...]:
        """The files that the save wrote; all files of the checkpoint if that is not known."""
        return self.checkpoint.written or self.checkpoint.files

    def largest(self) -> str:
        """The largest of its own files; the first by name if several are."""
        return min(self.own, key=lambda name: (-self.size(name), name))

    def with_copies(self, names: Iterable[str]) -> tuple[str, ...]:
        """These files and their copies: a job that finds one of them broken must not find another one whole."""
        every = [one for name in names for one in (name, *self.checkpoint.copies.get(name, ()))]
        return tuple(dict.fromkeys(every))

    def size(self, name: str) -> int:
        return (self.out / name).stat().st_size

    def original(self, name: str) -> Path:
        """The file as it was before the damage."""
        return self.kept.get(name, self.out / name)


class DamageMethod(Protocol):
    """A method of damaging one checkpoint: a frozen dataclass of its options.

    `files` are the names, below `{out}`, of the files that it changes; it raises LookupError if the checkpoint has
    none of the kind. `change` changes one of them in place and returns evidence. `harms` is False if the checkpoint
    itself stays intact. `describe` says what it does; `which` names the checkpoints.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def name(self) -> str: ...
    @property
    def harms(self) -> bool: ...
    def files(self, site: DamageSite) -> Sequence[str]: ...
    def change(self, name: str, site: DamageSite) -> Mapping[str, Any]: ...
    def describe(self, which: str) -> str: ...


@dataclass(frozen=True)
class Damage:
    """Damage the newest `checkpoints`, or all of them ('all'). With `older` the newest one stays intact and the
    damage begins with the one before it. After `heal_launches` further launches the originals come back.
    """

    method: DamageMethod
    checkpoints: int | str = 1
    heal_launches: int | None = None
    older: bool = False
    needs = (CanTouchFiles,)
    heal_after = None

    @property
    def name(self) -> str:
        return self.method.name

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanTouchFiles, world_size: int) -> Mapping[str, Any]:
        every = env.stored_checkpoints()
        first = int(self.older)
        last = max(len(every), first + 1) if isinstance(self.checkpoints, str) else first + self.checkpoints
        if last > len(every):
            raise LookupError(f"the fault needs {last} whole checkpoints, and there are {len(every)}")
        out, aside = env.out(), env.aside()
        kept: dict[str, Path] = {}
        files: list[dict[str, Any]] = []
        try:
            sites = [DamageSite(out, one, every, kept) for one in every[first:last]]
            plan = [(site, name) for site in sites for name in site.with_copies(self.method.files(site))]
            for _, name in plan:
                must_lie_in(out / name, out.parent)
            with unnoticed(out, [name for _, name in plan]):
                for number, (_, name) in enumerate(plan):
                    kept[name] = aside / str(number)
                    _keep(out, name, kept[name])
                for number, (site, name) in enumerate(plan):
                    files.append({**_before(out / name), "file": name, "kept": str(number)})
                    files[-1]["save"] = dict(site.checkpoint.save)
                    files[-1].update(self.method.change(name, site))
                    _settle(out / name, files[-1])
            same = [entry["file"] for entry in files if entry["after"] == entry["before"]]
            if same:
                raise LookupError(f"the damage would not change {same[0]}")
        except (OSError, ValueError, LookupError) as error:
            _put_back(out, files, aside)
            remove(aside, within=aside.parent)
            if isinstance(error, LookupError):
                raise
            raise LookupError(f"the checkpoint cannot be changed: {error}") from error
        if self.heal_launches is None:
            remove(aside, within=aside.parent)
        applied: dict[str, Any] = {"files": files, "aside": str(aside)}
        if self.method.harms:
            spared = (*every[:first], *every[last:])
            applied |= {"saves": _saves(every[first:last]), "spared": _saves(spared)}
        return applied

    def observed(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Every file reads back as it was made, or is gone, and its time of change is the old one."""
        seen: dict[str, str | None] = {}
        for entry in applied["files"]:
            path = env.out() / entry["file"]
            seen[entry["file"]] = now = digest(path)
            if now != entry["after"] or (now is not None and path.lstat().st_mtime_ns != entry["mtime_ns"]):
                return None
        return {"seen": seen}

    def heal(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put back every file that is still as the damage left it, and none that the job has removed or rewritten
        since. Mended is a save of which every file came back.
        """
        aside = Path(applied["aside"])
        with unnoticed(env.out(), [entry["file"] for entry in applied["files"]]):
            restored = _put_back(env.out(), applied["files"], aside)
        remove(aside, within=aside.parent)
        spoilt = [entry.get("save") for entry in applied["files"] if entry["file"] not in restored]
        # A schedule of an earlier chaoskit does not say which file is of which save.
        known = all(spoilt) or not spoilt
        return {"restored": restored, "mended": [s for s in applied.get("saves", []) if known and s not in spoilt]}

    def to_json(self) -> dict[str, Any]:
        options = {field.name: getattr(self.method, field.name) for field in fields(self.method)}
        several = {"checkpoints": self.checkpoints} if self.method.harms else {}
        older = {"older": True} if self.older else {}
        return {"kind": self.name, **options, **several, **older, "launches": self.heal_launches}

    def __str__(self) -> str:
        if self.older:
            named = {1: "the newest checkpoint but one", "all": "all checkpoints but the newest"}
            several = f"{self.checkpoints} checkpoints, from the newest but one on"
        else:
            named = {1: "the newest checkpoint", "all": "all checkpoints"}
            several = f"the newest {self.checkpoints} checkpoints"
        text = self.method.describe(named.get(self.checkpoints, several))
        launches = self.heal_launches
        return text if launches is None else f"{text} for {launches} launch{'es' if launches > 1 else ''}"


def digest(path: Path) -> str | None:
    """A digest of the file, or the target of a link; None if there is no file."""
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except FileNotFoundError:
        return None


def _saves(those: Iterable[StoredCheckpoint]) -> list[dict[str, int]]:
    return [dict(one.save) for one in those]


def _keep(out: Path, name: str, place: Path) -> None:
    """Copy the file. If an older checkpoint shares it by a hard link, separate the two first."""
    path = out / name
    shutil.copy2(path, place, follow_symlinks=False)
    if path.lstat().st_nlink > 1:
        remove(path, within=out.parent)
        shutil.copy2(place, path, follow_symlinks=False)


def _before(path: Path) -> dict[str, Any]:
    found = path.lstat()
    times = {"mtime_ns": found.st_mtime_ns, "atime_ns": found.st_atime_ns}
    return {"before": digest(path), "size": found.st_size, **times}


def _settle(path: Path, entry: dict[str, Any]) -> None:
    """Set the time of the last change back, because silent damage does not alter it."""
    if os.path.lexists(path):
        os.utime(path, ns=(entry["atime_ns"], entry["mtime_ns"]), follow_symlinks=False)
    entry["after"] = digest(path)


def _put_back(out: Path, files: Iterable[Mapping[str, Any]], aside: Path) -> list[str]:
    """Put the originals back, except where the job has changed the file since, or leads its directory elsewhere by a
    link. Return the names of the files."""
    restored = []
    for entry in files:
        path, original = out / entry["file"], aside / entry["kept"]
        changed_since = "after" in entry and digest(path) != entry["after"]
        try:
            must_lie_in(path, out.parent, make=bool(entry.get("folders")))
        except OSError:
            continue
        if changed_since or not os.path.lexists(original):
            continue
        remove(path, within=out.parent)
        shutil.copy2(original, path, follow_symlinks=False)
        restored.append(entry["file"])
    return restored


def damage(
    method: DamageMethod, *, checkpoints: int | str = 1, older: bool = False, launches: int | None = None
) -> Fault:
    """The fault that damages checkpoints by this method.

    Raises UsageError for numbers of checkpoints or launches that are not positive.
    """
    check_flag(method.name, "older", older)
    if not is_all(checkpoints):
        check_whole(method.name, "checkpoints", checkpoints, least=1, also="'all'")
    if launches is not None:
        check_whole(method.name, "launches", launches, least=1, also="None: for good")
    return Fault(Damage(method, checkpoints, launches, older))
