"""`hide`: the checkpoints disappear for a launch, as on a storage that is not mounted yet, and come back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.capabilities import CanTouchFiles
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault
from chaoskit.validation import check_whole


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
        out.mkdir(exist_ok=True)  # a job that starts from scratch may have removed it
        for name in applied["paths"]:
            if _holds(out / name):
                # Keep what was made in the meantime, but not where the job would find it.
                made.append(f"{name}.made-while-hidden")
                os.rename(out / name, aside / made[-1])
            elif _is_directory(out / name):
                (out / name).rmdir()
            os.rename(aside / name, out / name)
        with suppress(OSError):  # it is not empty: something was made
            aside.rmdir()
        return {"restored": applied["paths"], "made": made}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "launches": self.heal_launches}

    def __str__(self) -> str:
        return f"hide the checkpoints for {self.heal_launches} launch{'es' if self.heal_launches > 1 else ''}"


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _holds(path: Path) -> bool:
    """Whether the path is a file, or a directory that is not empty."""
    return any(path.iterdir()) if _is_directory(path) else os.path.lexists(path)


@fault("hide", Hide)
def hide(*, launches: int = 1) -> Fault:
    """Move all checkpoints out of `{out}`, and back as soon as `launches` further launches have ended.

    Checkpoints that a launch makes in the meantime are kept in the run's directory, as `<name>.made-while-hidden`.
    Observed once the checkpoints are gone from `{out}`. Raises UsageError for a number of launches that is not
    positive.
    """
    return Fault(Hide(check_whole("hide", "launches", launches, least=1)))
