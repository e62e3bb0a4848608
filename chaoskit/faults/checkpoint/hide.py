"""`hide`: the checkpoints disappear for a launch, as on a storage that is not mounted yet, and come back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from chaoskit.capabilities import CanTouchFiles
from chaoskit.errors import ChaoskitError
from chaoskit.faults.checkpoint.damage import DamageSite
from chaoskit.faults.checkpoint.pointers import pointers
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault
from chaoskit.files.removal import move, remove_if_empty
from chaoskit.validation import check_pattern, check_whole


@dataclass(frozen=True)
class Hide:
    """See `hide`."""

    heal_launches: int
    within: str = "*"
    name = "hide"
    needs = (CanTouchFiles,)
    heal_after = None

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanTouchFiles, world_size: int) -> Mapping[str, Any]:
        names = [name for name in _with_pointers(env) if fnmatchcase(name, self.within)]
        if not names:
            raise LookupError(f"no checkpoint lies at {self.within}")
        out, aside = env.out(), env.aside()
        applied: dict[str, Any] = {"paths": [], "aside": str(aside), "at": aside.stat().st_mtime}
        try:
            for name in names:
                move(out / name, aside / name, within=out.parent, into=aside)
                applied["paths"].append(name)
        except (OSError, ValueError) as error:
            _put_back(env, applied)
            raise LookupError(f"the checkpoints cannot be moved: {error}") from error
        return applied

    def observed(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        out, aside = env.out(), Path(applied["aside"])
        away = all(os.path.lexists(aside / name) and not os.path.lexists(out / name) for name in applied["paths"])
        return {"hidden": applied["paths"]} if away else None

    def heal(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        out, aside = env.out(), Path(applied["aside"])
        # Keep what was made in the meantime, but not where the job would find it.
        meanwhile = {name for name in applied["paths"] if os.path.lexists(out / name)}
        with suppress(LookupError):
            meanwhile |= {name for name in _with_pointers(env) if _changed(out / name) > applied["at"]}
        made = []
        for name in sorted(meanwhile):
            if os.path.lexists(out / name):  # it may have gone with the directory that it was in
                made.append(f"{name}.made-while-hidden")
                move(out / name, aside / made[-1], within=out.parent, into=aside)
        return {"restored": _put_back(env, applied), "made": made}

    def to_json(self) -> dict[str, Any]:
        within = {} if self.within == "*" else {"within": self.within}
        return {"kind": self.name, "launches": self.heal_launches, **within}

    def __str__(self) -> str:
        where = "" if self.within == "*" else f" at {self.within}"
        return f"hide the checkpoints{where} for {self.heal_launches} launch{'es' if self.heal_launches > 1 else ''}"


def _with_pointers(env: CanTouchFiles) -> list[str]:
    """The paths of the checkpoints, and the pointers beside them that name the newest one."""
    paths = list(env.checkpoint_paths())
    found: list[str] = []
    with suppress(LookupError):
        every = env.stored_checkpoints()
        found = [one.name for one in pointers(DamageSite(env.out(), every[0], every, {}))]
    return paths + [name for name in found if not any(PurePath(name).is_relative_to(path) for path in paths)]


def _put_back(env: CanTouchFiles, applied: Mapping[str, Any]) -> list[str]:
    out, aside = env.out(), Path(applied["aside"])
    for name in applied["paths"]:
        try:
            # A job that starts from scratch may have removed the directory around it, and `{out}` itself.
            move(aside / name, out / name, within=aside, into=out.parent)
        except OSError as error:
            why = f"{name} cannot be put back into {out} ({error.strerror}): the job has changed the way to it"
            raise ChaoskitError(f"{why}; it is kept in {aside}") from error
    for directory, _, _ in os.walk(aside, topdown=False):
        remove_if_empty(Path(directory), within=aside.parent)  # something may have been made
    return list(applied["paths"])


def _changed(path: Path) -> float:
    """When the newest file there was changed last; 0 if there is none."""
    newest = 0.0
    for one in (path, *path.rglob("*")):
        with suppress(FileNotFoundError):  # a job that runs may remove it meanwhile
            newest = max(newest, 0.0 if one.is_dir() else one.lstat().st_mtime)
    return newest


@fault("hide", Hide)
def hide(*, launches: int = 1, within: str = "*") -> Fault:
    """Move all checkpoints out of `{out}`, and back as soon as `launches` further launches have ended.

    What saves wrote is moved: their files, a directory that a save has for itself, with all that is in it, and the
    pointer to the newest one. Everything else stays, such as a marker beside the checkpoints. Checkpoints that a launch
    makes in the meantime are kept in the run's directory, as `<name>.made-while-hidden`. `within` is a shell pattern
    for paths below `{out}` ('checkpoints/*'): what lies elsewhere, such as a second store, stays.
    Observed once they are gone from `{out}`. Raises UsageError for a number of launches that is not
    positive, and for a pattern that is empty.
    """
    return Fault(
        Hide(
            check_whole("hide", "launches", launches, least=1),
            check_pattern("hide", "within", within, example="checkpoints/*"),
        )
    )
