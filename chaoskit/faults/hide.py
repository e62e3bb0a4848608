"""`hide`: the checkpoints are out of sight for a launch, as on a storage that is not mounted yet, and then back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.capabilities import CanTouchFiles
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault


@dataclass(frozen=True)
class Hide:
    """See `hide`."""

    heal_launches: int
    name = "hide"
    needs = (CanTouchFiles,)
    heal_after = None

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanTouchFiles, world_size: int) -> Mapping[str, Any]:
        names = env.checkpoint_directories()
        out, aside = env.out(), env.aside()
        applied: dict[str, Any] = {"paths": [], "aside": str(aside)}
        try:
            for name in names:
                os.rename(out / name, aside / name)
                applied["paths"].append(name)
                if _is_directory(aside / name):
                    (out / name).mkdir()
        except OSError as error:
            self.heal(env, applied)
            raise LookupError(f"the checkpoints cannot be moved: {error}") from error
        return applied

    def observed(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        out, aside = env.out(), Path(applied["aside"])
        away = all(os.path.lexists(aside / name) and not _holds(out / name) for name in applied["paths"])
        return {"hidden": applied["paths"]} if away else None

    def heal(self, env: CanTouchFiles, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        out, aside = env.out(), Path(applied["aside"])
        made = []
        out.mkdir(exist_ok=True)  # a job that begins anew may have removed it
        for name in applied["paths"]:
            if _holds(out / name):
                # What was made meanwhile is kept, but not where the job would find it.
                made.append(f"{name}.made-while-hidden")
                os.rename(out / name, aside / made[-1])
            elif _is_directory(out / name):
                (out / name).rmdir()
            os.rename(aside / name, out / name)
        with suppress(OSError):  # where something was made
            aside.rmdir()
        return {"restored": applied["paths"], "made": made}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "launches": self.heal_launches}

    def __str__(self) -> str:
        return f"hide the checkpoints for {self.heal_launches} launch{'es' if self.heal_launches > 1 else ''}"


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _holds(path: Path) -> bool:
    """Whether there is anything: a file, or a directory with something in it."""
    return any(path.iterdir()) if _is_directory(path) else os.path.lexists(path)


def hide(*, launches: int = 1) -> Fault:
    """Move all checkpoints out of the job's sight; back again as soon as `launches` further launches have ended.

    What a launch makes in their place is kept in the run's directory, as `<name>.made-while-hidden`. Observed
    once they are gone from `{out}`. Raises UsageError for a number of launches that is not positive.
    """
    if isinstance(launches, bool) or not isinstance(launches, int) or launches < 1:
        raise UsageError(f"hide: launches must be a whole number from 1, not {launches!r}")
    return Fault(Hide(launches))
